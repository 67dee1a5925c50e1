//! The program's kinds and webhooks, and what their certificates take.

use k8s_openapi::api::core::v1::{PodSpec, SecretVolumeSource, Volume, VolumeMount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::model::{File, Item, Model};
use crate::webhook::{Certificates, Reached};

/// Where certificates are mounted.
pub(super) const FOLDER: &str = "/etc/webhook-certificates";

/// What makes cert-manager put the authority of a Certificate into an object.
const INJECT: &str = "cert-manager.io/inject-ca-from";

/// The program's kinds.
pub(super) fn definitions(
    model: &Model<'_>,
    definitions: &[CustomResourceDefinition],
) -> Vec<Item> {
    let items = definitions.iter().map(|definition| {
        let mut item = Item::new(File::Crds, definition);
        if definition.spec.conversion.is_some() {
            annotate(model, &mut item);
        }
        item
    });
    items.collect()
}

/// The name and number of the port of the webhooks, if there are any.
pub(super) fn port(model: &Model<'_>) -> Option<(&'static str, u16)> {
    let manifests = model
        .manager
        .webhook_manifests(&model.namespace, &model.pod_labels());
    manifests.port
}

/// The Service and the configurations of the webhooks.
pub(super) fn objects(model: &Model<'_>) -> Vec<Item> {
    let manifests = model
        .manager
        .webhook_manifests(&model.namespace, &model.pod_labels());
    let mut items = Vec::new();
    let Some(service) = &manifests.service else {
        return items;
    };
    items.push(
        Item::new(File::Webhooks, service).comment("By which the API server reaches the webhooks."),
    );
    let configurations = [
        manifests
            .mutating
            .iter()
            .map(|one| Item::new(File::Webhooks, one))
            .collect::<Vec<_>>(),
        manifests
            .validating
            .iter()
            .map(|one| Item::new(File::Webhooks, one))
            .collect(),
    ];
    for mut item in configurations.into_iter().flatten() {
        if model.options.certificates == Certificates::Own {
            item = item
                .comment("The program adds the authority of its certificates, `caBundle`, itself.");
        }
        annotate(model, &mut item);
        items.push(item);
    }
    if model.options.certificates == Certificates::CertManager {
        items.extend(issued(model));
    }
    for item in &mut items {
        let labels = model.named("").labels;
        item.object["metadata"]["labels"] = json!(labels);
    }
    items
}

/// Has cert-manager put its authority into an object.
fn annotate(model: &Model<'_>, item: &mut Item) {
    if model.options.certificates == Certificates::CertManager {
        let from = format!("{}/{}", model.namespace, name(model));
        item.object["metadata"]["annotations"][INJECT] = from.into();
    }
}

/// The name of the Certificate and its Issuer: that of the Service.
fn name(model: &Model<'_>) -> String {
    format!("{}-webhooks", model.manager.name)
}

fn secret(model: &Model<'_>) -> String {
    Reached::secret_of(&model.manager.name)
}

/// What cert-manager makes the certificate by.
fn issued(model: &Model<'_>) -> [Item; 2] {
    let object = |kind: &str, spec: Value| {
        let object = json!({
            "apiVersion": "cert-manager.io/v1",
            "kind": kind,
            "metadata": model.named_here(&name(model)),
            "spec": spec,
        });
        Item::untyped(File::Webhooks, object)
    };
    let (service, namespace) = (name(model), &model.namespace);
    let certificate = json!({
        "secretName": secret(model),
        "dnsNames": [
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}.svc.cluster.local"),
        ],
        "issuerRef": {"kind": "Issuer", "name": name(model)},
        // Mounted files are read again when they change.
        "privateKey": {"rotationPolicy": "Always"},
    });
    [
        object("Issuer", json!({"selfSigned": {}})),
        object("Certificate", certificate),
    ]
}

/// Says where the certificates come from, if the program does not make them.
pub(super) fn arguments(model: &Model<'_>) -> Option<String> {
    let source = match model.options.certificates {
        Certificates::Own => return None,
        Certificates::Files => "files",
        Certificates::CertManager => "cert-manager",
    };
    port(model).map(|_| format!("--webhook-certificates={source}"))
}

/// Mounts the certificates, if they are files.
pub(super) fn mount_certificates(model: &Model<'_>, pod: &mut PodSpec) {
    if model.options.certificates == Certificates::Own || port(model).is_none() {
        return;
    }
    const VOLUME: &str = "webhook-certificates";
    pod.volumes.get_or_insert_default().push(Volume {
        name: VOLUME.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret(model)),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    });
    for container in &mut pod.containers {
        container
            .volume_mounts
            .get_or_insert_default()
            .push(VolumeMount {
                name: VOLUME.to_owned(),
                mount_path: FOLDER.to_owned(),
                read_only: Some(true),
                ..VolumeMount::default()
            });
    }
}
