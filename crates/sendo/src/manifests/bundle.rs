//! The objects as a bundle for the Operator Lifecycle Manager: what it makes itself, Deployment,
//! account, roles and webhooks, is in a ClusterServiceVersion.
//!
//! Rules of the bundle format: operator-framework/api v0.37, `pkg/operators/v1alpha1` and
//! `pkg/validation`.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, RuleWithOperations, ValidatingWebhook,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::ManifestError;
use super::files::Files;
use super::helm::version_of;
use super::model::{File, Model};
use super::yaml::{self, Comments};
use super::{rbac, wanted, webhooks};
use crate::cache::Namespaces;
use crate::rights::Right;

/// The kinds of objects beside the ClusterServiceVersion that a bundle may hold, of those that
/// there are here.
const BESIDE: [&str; 8] = [
    "ClusterRole",
    "ConfigMap",
    "CustomResourceDefinition",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "Role",
    "Service",
    "ServiceMonitor",
];

const SCORECARD: &str = "\
apiVersion: scorecard.operatorframework.io/v1alpha3
kind: Configuration
metadata:
  name: config
stages:
- parallel: true
  tests:
  - entrypoint: [scorecard-test, basic-check-spec]
    image: quay.io/operator-framework/scorecard-test:v1.42.0
    labels: {suite: basic, test: basic-check-spec-test}
  - entrypoint: [scorecard-test, olm-bundle-validation]
    image: quay.io/operator-framework/scorecard-test:v1.42.0
    labels: {suite: olm, test: olm-bundle-validation-test}
  - entrypoint: [scorecard-test, olm-crds-have-validation]
    image: quay.io/operator-framework/scorecard-test:v1.42.0
    labels: {suite: olm, test: olm-crds-have-validation-test}
  - entrypoint: [scorecard-test, olm-spec-descriptors]
    image: quay.io/operator-framework/scorecard-test:v1.42.0
    labels: {suite: olm, test: olm-spec-descriptors-test}
  - entrypoint: [scorecard-test, olm-status-descriptors]
    image: quay.io/operator-framework/scorecard-test:v1.42.0
    labels: {suite: olm, test: olm-status-descriptors-test}
";

pub(super) fn files(model: &Model<'_>) -> Result<Files, ManifestError> {
    if matches!(model.options.namespaces, Namespaces::Only(_)) {
        return Err(ManifestError::Format(
            "a bundle is installed for all namespaces: leave out --namespaces, or use another format"
                .to_owned(),
        ));
    }
    let version = version_of(model)?;
    let mut files = Files::new(&model.manager.name);
    let name = &model.name;
    let service_version = service_version(model, &version);
    files.add(
        &format!("manifests/{name}.clusterserviceversion.yaml"),
        &yaml::document(&service_version, &Comments::new()),
    );
    for mut item in wanted(model) {
        if !BESIDE.contains(&item.kind()) || [File::Rbac, File::Webhooks].contains(&item.file) {
            continue;
        }
        // They are installed where the subscription says.
        if let Some(metadata) = item.object["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        let file = format!(
            "manifests/{}.{}.yaml",
            item.name(),
            item.kind().to_lowercase()
        );
        files.add(&file, &yaml::document(&item.object, &item.comments));
    }
    files.add(
        "metadata/annotations.yaml",
        &yaml::document(&annotations(name), &Comments::new()),
    );
    files.add("tests/scorecard/config.yaml", SCORECARD);
    files.add("bundle.Dockerfile", &dockerfile(name));
    Ok(files)
}

/// What a bundle says of itself, to who looks at its files or at its image.
fn about(package: &str) -> [(String, String); 8] {
    let bundle = "operators.operatorframework.io.bundle";
    let test = "operators.operatorframework.io.test";
    [
        (format!("{bundle}.mediatype.v1"), "registry+v1".to_owned()),
        (format!("{bundle}.manifests.v1"), "manifests/".to_owned()),
        (format!("{bundle}.metadata.v1"), "metadata/".to_owned()),
        (format!("{bundle}.package.v1"), package.to_owned()),
        (format!("{bundle}.channels.v1"), "stable".to_owned()),
        (format!("{bundle}.channel.default.v1"), "stable".to_owned()),
        (format!("{test}.mediatype.v1"), "scorecard+v1".to_owned()),
        (format!("{test}.config.v1"), "tests/scorecard/".to_owned()),
    ]
}

fn annotations(package: &str) -> Value {
    let pairs = about(package).map(|(name, value)| (name, Value::from(value)));
    json!({"annotations": Value::Object(pairs.into_iter().collect())})
}

fn dockerfile(package: &str) -> String {
    let labels = about(package).map(|(name, value)| format!("LABEL {name}={value}\n"));
    format!(
        "FROM scratch\n\n{}\nCOPY manifests /manifests/\nCOPY metadata /metadata/\nCOPY tests/scorecard /tests/scorecard/\n",
        labels.concat()
    )
}

fn service_version(model: &Model<'_>, version: &str) -> Value {
    let (name, manager) = (&model.name, model.manager);
    let description = manager.description.clone();
    let description = description.unwrap_or_else(|| format!("{name}, a controller for Kubernetes"));
    let (own, everywhere): (Vec<Right>, Vec<Right>) = manager
        .rights(&model.rights_options())
        .into_iter()
        .partition(|right| right.namespaces.iter().eq([&model.namespace]));
    // A bundle has no roles in other namespaces: what is narrowed to one is allowed in all.
    let everywhere = everywhere.into_iter().map(|right| Right {
        namespaces: Default::default(),
        ..right
    });
    let permissions =
        |rights: Vec<Right>| json!([{"serviceAccountName": name, "rules": rbac::rules(&rights)}]);
    let items = model.items();
    let deployment = items.iter().find(|item| item.kind() == "Deployment");
    let deployment = deployment.map(|item| with_certificates(model, item.object["spec"].clone()));
    let mut spec = json!({
        "displayName": name,
        "description": description,
        "version": version,
        "maturity": "stable",
        "minKubeVersion": "1.29.0",
        "installModes": [
            {"type": "OwnNamespace", "supported": false},
            {"type": "SingleNamespace", "supported": false},
            {"type": "MultiNamespace", "supported": false},
            {"type": "AllNamespaces", "supported": true},
        ],
        "customresourcedefinitions": {"owned": owned(model)},
        "install": {
            "strategy": "deployment",
            "spec": {
                "deployments": [{"name": name, "label": model.pod_labels(), "spec": deployment}],
                "clusterPermissions": permissions(everywhere.collect()),
                "permissions": permissions(own),
            },
        },
    });
    model.options.catalog.add_to(&mut spec, name);
    let definitions = webhook_definitions(model);
    if !definitions.is_empty() {
        spec["webhookdefinitions"] = definitions.into();
    }
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{name}.v{version}"),
            "annotations": {
                "alm-examples": model.options.catalog.examples(),
                "capabilities": "Basic Install",
                "containerImage": model.image,
                "description": description,
            },
        },
        "spec": spec,
    })
}

/// What installs a bundle makes the certificates, and mounts them itself, in this folder.
fn with_certificates(model: &Model<'_>, mut deployment: Value) -> Value {
    const FOLDER: &str = "/tmp/k8s-webhook-server/serving-certs";
    let pod = &mut deployment["template"]["spec"];
    if webhooks::port(model).is_none() {
        return deployment;
    }
    if let Some(fields) = pod.as_object_mut() {
        fields.remove("volumes");
    }
    if let Some(fields) = pod["containers"][0].as_object_mut() {
        fields.remove("volumeMounts");
        if let Some(Value::Array(arguments)) = fields.get_mut("args") {
            arguments.push(format!("--webhook-certificates-dir={FOLDER}").into());
        }
    }
    deployment
}

fn owned(model: &Model<'_>) -> Vec<Value> {
    let definitions = model.manager.definitions().iter();
    let versions = definitions.flat_map(|definition| {
        let spec = &definition.spec;
        spec.versions.iter().map(move |version| {
            let schema = version
                .schema
                .as_ref()
                .and_then(|schema| schema.open_api_v3_schema.as_ref());
            let description = schema.and_then(|schema| schema.description.clone());
            json!({
                "name": definition.metadata.name,
                "kind": spec.names.kind,
                "version": version.name,
                "displayName": spec.names.kind,
                "description": description.unwrap_or_else(|| spec.names.kind.clone()),
            })
        })
    });
    versions.collect()
}

/// A webhook in the words of a ClusterServiceVersion, which makes Service, configuration and
/// certificate itself.
struct Definition<'a> {
    phase: &'a str,
    name: &'a str,
    path: Option<&'a String>,
    rules: &'a Option<Vec<RuleWithOperations>>,
    failure_policy: &'a Option<String>,
    match_policy: &'a Option<String>,
    object_selector: &'a Option<LabelSelector>,
    side_effects: &'a str,
    timeout_seconds: Option<i32>,
}

impl<'a> From<&'a MutatingWebhook> for Definition<'a> {
    fn from(webhook: &'a MutatingWebhook) -> Self {
        Definition {
            phase: "MutatingAdmissionWebhook",
            name: &webhook.name,
            path: webhook
                .client_config
                .service
                .as_ref()
                .and_then(|service| service.path.as_ref()),
            rules: &webhook.rules,
            failure_policy: &webhook.failure_policy,
            match_policy: &webhook.match_policy,
            object_selector: &webhook.object_selector,
            side_effects: &webhook.side_effects,
            timeout_seconds: webhook.timeout_seconds,
        }
    }
}

impl<'a> From<&'a ValidatingWebhook> for Definition<'a> {
    fn from(webhook: &'a ValidatingWebhook) -> Self {
        Definition {
            phase: "ValidatingAdmissionWebhook",
            name: &webhook.name,
            path: webhook
                .client_config
                .service
                .as_ref()
                .and_then(|service| service.path.as_ref()),
            rules: &webhook.rules,
            failure_policy: &webhook.failure_policy,
            match_policy: &webhook.match_policy,
            object_selector: &webhook.object_selector,
            side_effects: &webhook.side_effects,
            timeout_seconds: webhook.timeout_seconds,
        }
    }
}

impl Definition<'_> {
    fn to_value(&self, deployment: &str, port: u16) -> Value {
        let mut value = json!({
            "type": self.phase,
            "generateName": self.name,
            "admissionReviewVersions": ["v1"],
            "deploymentName": deployment,
            "containerPort": 443,
            "targetPort": port,
            "sideEffects": self.side_effects,
            "webhookPath": self.path,
            "rules": self.rules,
            "failurePolicy": self.failure_policy,
            "matchPolicy": self.match_policy,
            "timeoutSeconds": self.timeout_seconds,
        });
        if let Some(selector) = self.object_selector {
            value["objectSelector"] = json!(selector);
        }
        value
    }
}

fn webhook_definitions(model: &Model<'_>) -> Vec<Value> {
    let manifests = model
        .manager
        .webhook_manifests(&model.namespace, &model.pod_labels());
    let Some((_, port)) = manifests.port else {
        return Vec::new();
    };
    let mutating = manifests
        .mutating
        .iter()
        .flat_map(|one| one.webhooks.iter().flatten());
    let validating = manifests
        .validating
        .iter()
        .flat_map(|one| one.webhooks.iter().flatten());
    let all = mutating
        .map(Definition::from)
        .chain(validating.map(Definition::from));
    let mut all: Vec<Value> = all.map(|one| one.to_value(&model.name, port)).collect();
    let definitions = model.manager.definitions_in(&model.namespace);
    let converted = definitions
        .iter()
        .filter(|one| one.spec.conversion.is_some());
    let converted: Vec<&Option<String>> = converted.map(|one| &one.metadata.name).collect();
    if !converted.is_empty() {
        all.push(json!({
            "type": "ConversionWebhook",
            "generateName": format!("convert.{}", model.name),
            "admissionReviewVersions": ["v1"],
            "deploymentName": model.name,
            "containerPort": 443,
            "targetPort": port,
            "sideEffects": "None",
            "webhookPath": "/convert",
            "conversionCRDs": converted,
        }));
    }
    all
}
