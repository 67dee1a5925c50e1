//! What is printed for a program with everything that a program can have.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::*;
use crate::cache::Namespaces;
use crate::webhook::{self, Admission, Change, Denied};
use crate::{Action, Context, Controller, Result as SendoResult, Right, Verb};

/// A shop, whose texts look like a template: {{ .Values }}.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "example.dev",
    version = "v1",
    kind = "Shop",
    namespaced,
    status = "ShopStatus"
)]
struct ShopSpec {
    /// How many {{ shelves }} it has.
    shelves: i32,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct ShopStatus {}

/// A town, of no namespace.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.dev", version = "v1", kind = "Town")]
struct TownSpec {}

async fn reconcile(_: Arc<Shop>, _: Context) -> SendoResult<Action> {
    Ok(Action::done())
}

async fn reconcile_town(_: Arc<Town>, _: Context) -> SendoResult<Action> {
    Ok(Action::done())
}

async fn allow(_: Change<Shop>, _: Admission) -> Result<(), Denied> {
    Ok(())
}

async fn allow_map(_: Change<ConfigMap>, _: Admission) -> Result<(), Denied> {
    Ok(())
}

fn program() -> Manager {
    Manager::new("shops")
        .version("1.2.3")
        .defines::<Shop>()
        .defines::<Town>()
        .webhook(webhook::validates(allow))
        .webhook(webhook::validates(allow_map).except_own_namespace())
        .controller(
            Controller::new::<Shop>()
                .owns::<Deployment>()
                .needs(Right::of::<Secret>(Verb::Get | Verb::Create).named("key"))
                .needs(Right::path("/metrics", Verb::Get))
                .reconcile(reconcile),
        )
        .controller(Controller::new::<Town>().reconcile(reconcile_town))
}

fn all_extras() -> BTreeSet<Extra> {
    [
        Extra::NetworkPolicy,
        Extra::ServiceMonitor,
        Extra::Dashboard,
    ]
    .into()
}

fn printed(options: &Options, format: Format) -> Files {
    program().manifests(options, format).unwrap()
}

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn objects(options: &Options) -> Vec<Value> {
    documents(&printed(options, Format::Yaml).to_yaml())
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let mut found = objects.iter();
    let found = found.find(|one| one["kind"] == kind && one["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

#[test]
fn the_same_program_prints_the_same_bytes() {
    for format in [
        Format::Yaml,
        Format::Kustomize,
        Format::Helm,
        Format::Bundle,
    ] {
        let options = Options::new(&program());
        assert_eq!(printed(&options, format), printed(&options, format));
    }
}

#[test]
fn a_right_to_some_names_is_a_rule_for_these_names() {
    let objects = objects(&Options::new(&program()));
    let role = find(&objects, "ClusterRole", "shops");
    let rules = role["rules"].as_array().unwrap();
    let secrets = rules
        .iter()
        .filter(|rule| rule["resources"] == serde_json::json!(["secrets"]));
    let secrets: Vec<String> = secrets
        .map(|rule| format!("{} {}", rule["verbs"], rule["resourceNames"]))
        .collect();
    // A creation has no name that could be compared.
    assert_eq!(secrets, ["[\"create\"] null", "[\"get\"] [\"key\"]"]);
    assert!(
        rules
            .iter()
            .any(|rule| rule["nonResourceURLs"] == serde_json::json!(["/metrics"]))
    );
}

#[test]
fn rights_in_some_namespaces_are_a_role_in_each() {
    let options = Options {
        namespaces: Namespaces::Only(["a".to_owned(), "b".to_owned()].into()),
        ..Options::new(&program())
    };
    let objects = objects(&options);
    for namespace in ["a", "b"] {
        let role = objects
            .iter()
            .find(|one| one["kind"] == "Role" && one["metadata"]["namespace"] == namespace);
        let text = role.unwrap().to_string();
        assert!(
            text.contains("deployments") && text.contains("shops"),
            "{text}"
        );
    }
    // What is left everywhere is of no namespace.
    let everywhere = find(&objects, "ClusterRole", "shops")["rules"].to_string();
    assert!(
        everywhere.contains("towns") && !everywhere.contains("deployments"),
        "{everywhere}"
    );
    let own = find(&objects, "Role", "shops-own-namespace");
    assert_eq!(own["metadata"]["namespace"], "shops-system");
    assert!(own.to_string().contains("leases"));
}

#[test]
fn roles_of_users_are_aggregated_for_kinds_in_namespaces_only() {
    let objects = objects(&Options::new(&program()));
    let label = |name: &str, role: &str| {
        let labels = &find(&objects, "ClusterRole", name)["metadata"]["labels"];
        labels[format!("rbac.authorization.k8s.io/aggregate-to-{role}")].clone()
    };
    for role in ["view", "edit", "admin"] {
        assert_eq!(label(&format!("shops-shops-{role}"), role), "true");
        assert_eq!(label(&format!("shops-towns-{role}"), role), Value::Null);
    }
    let view = find(&objects, "ClusterRole", "shops-shops-view");
    assert!(view.to_string().contains("shops/status"));
}

#[test]
fn pods_have_as_long_to_end_as_the_program_may_take() {
    let grace = |objects: &[Value]| {
        let deployment = find(objects, "Deployment", "shops");
        deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].clone()
    };
    let defaults = Options::new(&program());
    // 30 s for work in flight, 15 s of the lease, and what events, caches and servers may take.
    assert_eq!(grace(&objects(&defaults)), 72);
    let longer = Options {
        grace_period: std::time::Duration::from_millis(90_500),
        ..defaults
    };
    assert_eq!(grace(&objects(&longer)), 91);
}

#[test]
fn what_is_asked_for_is_printed_and_nothing_else() {
    let has =
        |options: &Options, kind: &str| objects(options).iter().any(|one| one["kind"] == kind);
    let defaults = Options::new(&program());
    let all = Options {
        extras: all_extras(),
        ..defaults.clone()
    };
    for kind in ["NetworkPolicy", "ServiceMonitor", "ConfigMap"] {
        assert!(!has(&defaults, kind), "{kind}");
        assert!(has(&all, kind), "{kind}");
    }
    let dashboard = objects(&all)
        .into_iter()
        .find(|one| one["kind"] == "ConfigMap")
        .unwrap();
    let json = dashboard["data"]["shops.json"].as_str().unwrap();
    let json: Value = serde_json::from_str(json).unwrap();
    assert_eq!(json["title"], "shops");
    assert!(defaults.certificates == Certificates::Own && !has(&defaults, "Issuer"));
    let issued = Options {
        certificates: Certificates::CertManager,
        ..defaults
    };
    assert!(has(&issued, "Issuer") && has(&issued, "Certificate"));
    let objects = objects(&issued);
    let configuration = find(&objects, "ValidatingWebhookConfiguration", "shops");
    let from = &configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
    assert_eq!(from, "shops-system/shops-webhooks");
}

#[test]
fn no_authority_is_printed() {
    let text = printed(&Options::new(&program()), Format::Yaml).to_yaml();
    assert!(text.contains("kind: ValidatingWebhookConfiguration"));
    let text = text.replace("authority of its certificates, `caBundle`", "");
    assert!(!text.contains("caBundle"), "{text}");
}

#[test]
fn values_that_kubernetes_would_refuse_are_errors_that_name_the_flag() {
    let defaults = || Options::new(&program());
    let error = |options: Options| {
        let result = program().manifests(&options, Format::Yaml);
        result.unwrap_err().to_string()
    };
    let named = |name: &str| Options {
        name: name.to_owned(),
        ..defaults()
    };
    for name in ["", "Shops", "a_b", "-a", "a.b"] {
        let text = error(named(name));
        assert!(
            text.starts_with(&format!("--name {name:?} is no name")),
            "{text}"
        );
    }
    let text = error(named(&"a".repeat(49)));
    assert!(
        text.contains("has 49 characters, and may have 48"),
        "{text}"
    );
    let text = error(Options {
        namespace: "A".to_owned(),
        ..defaults()
    });
    assert!(text.starts_with("--namespace \"A\""), "{text}");
    let text = error(Options {
        image: "a b".to_owned(),
        ..defaults()
    });
    assert!(text.contains("is no image"), "{text}");
    let text = error(Options {
        replicas: u32::MAX,
        ..defaults()
    });
    assert!(text.starts_with("--replicas"), "{text}");
    let only = Namespaces::Only(["a".to_owned()].into());
    let confined = Options {
        namespaces: only,
        ..defaults()
    };
    let text = program()
        .manifests(&confined, Format::Bundle)
        .unwrap_err()
        .to_string();
    assert!(text.contains("leave out --namespaces"), "{text}");
    let odd = program().version("next");
    for format in [Format::Helm, Format::Bundle] {
        let text = odd.manifests(&defaults(), format).unwrap_err().to_string();
        assert!(text.contains("\"next\", is no semantic version"), "{text}");
    }
}

#[test]
fn a_program_with_problems_prints_nothing() {
    let broken = program().webhook(webhook::validates(allow).timeout_seconds(31));
    let text = broken
        .manifests(&Options::new(&broken), Format::Yaml)
        .unwrap_err()
        .to_string();
    assert!(text.contains("from 1 to 30"), "{text}");
}

#[test]
fn a_folder_is_written_compared_and_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("deploy");
    let defaults = Options::new(&program());
    let files = printed(&defaults, Format::Yaml);
    let missing = files.differences_in(&folder).unwrap_err().to_string();
    assert!(missing.contains("write it with --output"), "{missing}");
    files.write_to(&folder).unwrap();
    assert_eq!(files.differences_in(&folder).unwrap(), []);

    let other = Options {
        replicas: 3,
        extras: all_extras(),
        ..defaults
    };
    let more = printed(&other, Format::Yaml);
    let differences = more.differences_in(&folder).unwrap();
    let files_that_differ: Vec<&str> = differences.iter().map(|one| &*one.file).collect();
    let expected = [
        "40-deployment.yaml",
        "60-monitoring.yaml",
        "70-network-policy.yaml",
    ];
    assert_eq!(files_that_differ, expected);
    let diff = &differences[0].diff;
    assert!(
        diff.contains("\n-  replicas: 1\n+  replicas: 3\n"),
        "{diff}"
    );

    more.write_to(&folder).unwrap();
    // What is not printed any more goes.
    let extra = files.differences_in(&folder).unwrap();
    assert!(
        extra.iter().any(|one| one.diff.contains("+++ /dev/null")),
        "{extra:?}"
    );
    files.write_to(&folder).unwrap();
    assert!(!folder.join("70-network-policy.yaml").exists());
    assert_eq!(files.differences_in(&folder).unwrap(), []);
}

#[test]
fn a_folder_with_other_files_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("below")).unwrap();
    fs::write(folder.path().join("below/notes.txt"), "mine").unwrap();
    let files = printed(&Options::new(&program()), Format::Yaml);
    let error = files.write_to(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("holds below/notes.txt, which this program has not printed"),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_chart_has_the_values_of_the_flags() {
    let options = Options {
        image: "registry.example:5000/shops:7".to_owned(),
        replicas: 2,
        environment: [("REGION".to_owned(), "eu".to_owned())].into(),
        ..Options::new(&program())
    };
    let files = printed(&options, Format::Helm);
    let values = &documents(files.get("values.yaml").unwrap())[0];
    assert_eq!(values["image"]["repository"], "registry.example:5000/shops");
    assert_eq!(values["image"]["tag"], "7");
    assert_eq!(values["replicas"], 2);
    assert_eq!(values["env"][0]["name"], "REGION");
    let crds = files.get("templates/crds.yaml").unwrap();
    assert!(
        crds.contains("How many {{ \"{{\" }} shelves }} it has"),
        "{crds}"
    );
    let deployment = files.get("templates/deployment.yaml").unwrap();
    assert!(
        deployment.contains("replicas: {{ .Values.replicas }}"),
        "{deployment}"
    );
    let texts: String = files.iter().map(|(_, text)| text).collect();
    assert!(!texts.contains(['\u{e000}', '\u{e001}', '\u{e002}', '\u{e003}']));
}

#[test]
fn a_kustomization_replaces_every_namespace_that_is_the_programs() {
    let files = printed(&Options::new(&program()), Format::Kustomize);
    let kustomization = files.get("kustomization.yaml").unwrap();
    for path in [
        "- metadata.namespace",
        "- subjects.0.namespace",
        "- webhooks.0.clientConfig.service.namespace",
        "- webhooks.1.namespaceSelector.matchExpressions.0.values.0",
    ] {
        assert!(kustomization.contains(path), "{path}\n{kustomization}");
    }
    assert!(!kustomization.contains('\u{e000}'));
}

#[test]
fn a_bundle_has_what_its_manager_makes_in_one_file() {
    let files = printed(&Options::new(&program()), Format::Bundle);
    let version = files
        .get("manifests/shops.clusterserviceversion.yaml")
        .unwrap();
    let version = &documents(version)[0];
    assert_eq!(version["metadata"]["name"], "shops.v1.2.3");
    let spec = &version["spec"];
    assert_eq!(spec["install"]["spec"]["deployments"][0]["name"], "shops");
    assert_eq!(
        spec["webhookdefinitions"][0]["webhookPath"],
        "/validate-example-dev-v1-shop"
    );
    let kinds: Vec<&Value> = spec["customresourcedefinitions"]["owned"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["kind"])
        .collect();
    assert_eq!(kinds, ["Shop", "Town"]);
    let others: String = files.iter().map(|(path, _)| path).collect();
    assert!(
        !others.contains("deployment.yaml") && !others.contains("serviceaccount"),
        "{others}"
    );
}

#[test]
fn a_bundle_shows_what_it_was_told_and_nothing_made_up() {
    let text = |options: &Options| {
        let files = printed(options, Format::Bundle);
        let version = files.get("manifests/shops.clusterserviceversion.yaml");
        version.unwrap().to_owned()
    };
    let plain = text(&Options::new(&program()));
    for made_up in [
        "example.com",
        "placeholder",
        "maintainers",
        "links",
        "icon",
        "keywords",
    ] {
        assert!(!plain.contains(made_up), "{made_up}: {plain}");
    }
    let plain = &documents(&plain)[0];
    assert_eq!(plain["metadata"]["annotations"]["alm-examples"], "[]");
    assert_eq!(plain["spec"]["provider"]["name"], "shops");

    let folder = tempfile::tempdir().unwrap();
    let sample =
        "apiVersion: example.dev/v1\nkind: Shop\nmetadata:\n  name: corner\nspec:\n  shelves: 3\n";
    let other = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: key\n";
    fs::write(
        folder.path().join("shop.yaml"),
        format!("{other}---\n{sample}"),
    )
    .unwrap();
    fs::write(folder.path().join("notes.txt"), "{").unwrap();
    let icon = folder.path().join("shop.svg");
    fs::write(&icon, "<svg/>").unwrap();
    let options = Options {
        catalog: Catalog {
            provider: Some("Harbour".to_owned()),
            maintainers: vec![("Ann".to_owned(), "ann@example.dev".to_owned())],
            links: vec![("Guide".to_owned(), "https://example.dev".to_owned())],
            icon: Some(Icon::read(&icon).unwrap()),
            samples: Catalog::read_samples(&program(), folder.path()).unwrap(),
        },
        ..Options::new(&program())
    };
    let told = &documents(&text(&options))[0];
    let examples = told["metadata"]["annotations"]["alm-examples"].as_str();
    let examples: Value = serde_json::from_str(examples.unwrap()).unwrap();
    assert_eq!(examples.as_array().unwrap().len(), 1, "{examples}");
    assert_eq!(examples[0]["spec"]["shelves"], 3);
    let spec = &told["spec"];
    assert_eq!(spec["provider"]["name"], "Harbour");
    assert_eq!(spec["maintainers"][0]["email"], "ann@example.dev");
    assert_eq!(spec["links"][0]["url"], "https://example.dev");
    assert_eq!(spec["icon"][0]["mediatype"], "image/svg+xml");
}

#[test]
fn samples_and_icons_that_a_catalog_does_not_take_are_refused_with_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let refused = Catalog::read_samples(&program(), folder.path()).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("no object of the program's kinds"),
        "{refused}"
    );
    fs::write(folder.path().join("shop.yaml"), "a: [").unwrap();
    let refused = Catalog::read_samples(&program(), folder.path()).unwrap_err();
    assert!(refused.to_string().contains("shop.yaml"), "{refused}");
    let refused = Icon::read(&folder.path().join("shop.bmp")).unwrap_err();
    assert!(refused.to_string().contains(".svg, .png"), "{refused}");
}
