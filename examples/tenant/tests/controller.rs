//! The whole program on a live cluster, in virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Namespace};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use sendo::metrics::Format;
use sendo::{ObjectExt, Patch, Running};
use sendo_test::{Faults, Rights, TestCluster, View};
use serde_json::{Value, json};
use tenant::api::Tenant;
use tenant::directory::{Directory, Teams};
use tenant::{Options, manager};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

const RIGHTS: &str = include_str!("../deploy/20-rbac.yaml");

fn tenant(spec: Value) -> Tenant {
    serde_json::from_value(json!({"metadata": {"name": "blue"}, "spec": spec})).unwrap()
}

/// A tenant with the namespaces blue-dev and blue-prod.
fn blue() -> Tenant {
    tenant(json!({
        "namespacePrefix": "blue-",
        "namespaces": ["dev", "prod"],
        "admins": [{"kind": "Group", "name": "oncall"}],
    }))
}

fn without_teams() -> Options {
    Options::new(Directory::empty())
}

async fn set_up(cluster: &TestCluster) {
    cluster.install::<Tenant>().await;
    cluster.run(manager(without_teams())).await;
}

/// The tenant's namespaces that are not being deleted.
fn namespaces(now: &View) -> Vec<String> {
    let mut namespaces = now.list::<Namespace>();
    namespaces.retain(|n| n.controller_of::<Tenant>().is_some() && !n.is_being_deleted());
    namespaces.iter().map(|n| n.name().to_owned()).collect()
}

fn ready(now: &View) -> (String, String) {
    let tenant = now.get::<Tenant>("blue");
    let conditions = tenant.and_then(|t| t.status).map(|s| s.conditions);
    let mut conditions = conditions.unwrap_or_default().into_iter();
    let ready = conditions.find(|condition| condition.type_ == "Ready");
    ready.map(|c| (c.status, c.reason)).unwrap_or_default()
}

async fn until_ready_is(cluster: &TestCluster, status: &str, reason: &str) {
    cluster
        .until(&format!("Ready is {status} for {reason}"), |now| {
            let (is, why) = ready(now);
            is == status && why == reason
        })
        .await;
}

fn subjects(cluster: &TestCluster, namespace: &str) -> Vec<String> {
    let binding = cluster.get::<RoleBinding>(format!("{namespace}/tenant-admin"));
    let subjects = binding.and_then(|b| b.subjects).unwrap_or_default();
    let line = |s: &k8s_openapi::api::rbac::v1::Subject| format!("{} {}", s.kind, s.name);
    subjects.iter().map(line).collect()
}

/// How often each Event about the tenant was recorded, with the namespaces it was written to.
fn events(cluster: &TestCluster) -> BTreeMap<String, i32> {
    let mut counts = BTreeMap::new();
    for event in cluster.list::<Event>() {
        if event.involved_object.kind.as_deref() == Some("Tenant") {
            assert_eq!(event.namespace(), Some("default"));
            let (kind, reason) = (event.type_.unwrap(), event.reason.unwrap());
            *counts.entry(format!("{kind} {reason}")).or_default() += event.count.unwrap_or(1);
        }
    }
    counts
}

#[sendo_test::test]
async fn a_tenant_gets_its_namespaces_and_rights_in_them(cluster: TestCluster) {
    set_up(&cluster).await;
    cluster.create(&blue()).await;
    until_ready_is(&cluster, "True", "Reconciled").await;
    for namespace in ["blue-dev", "blue-prod"] {
        assert_eq!(subjects(&cluster, namespace), ["Group oncall"]);
        let role = cluster.get::<Role>(format!("{namespace}/tenant-admin"));
        assert!(role.unwrap().rules.is_some_and(|rules| !rules.is_empty()));
    }
    let status = cluster.get::<Tenant>("blue").unwrap().status.unwrap();
    assert_eq!(status.namespaces, 2);
    cluster.pass(MINUTE).await;
    let recorded = [("Normal NamespaceAdded", 2), ("Normal Reconciled", 1)];
    let recorded = recorded.map(|(event, count)| (event.to_owned(), count));
    assert_eq!(events(&cluster), recorded.into());
    cluster.stays_quiet_for(HOUR).await;
}

#[sendo_test::test]
async fn a_namespace_removed_from_the_spec_is_deleted(cluster: TestCluster) {
    cluster.install::<Tenant>().await;
    let running = manager(without_teams()).start(cluster.config()).unwrap();
    let made = cluster.create(&blue()).await;
    until_ready_is(&cluster, "True", "Reconciled").await;
    cluster
        .patch(&made, json!({"spec": {"namespaces": ["prod", "test"]}}))
        .await;
    cluster
        .until("dev is gone and test is there", |now| {
            namespaces(now) == ["blue-prod", "blue-test"]
                && now.get::<Namespace>("blue-dev").is_none()
        })
        .await;
    let page = running.metrics().encode(Format::Prometheus);
    assert!(
        page.contains("\ntenant_namespaces_added_total 3\n"),
        "{page}"
    );
    assert!(page.contains("\ntenant_namespaces_removed_total 1\n"));
    running.stop().await.unwrap();
}

#[sendo_test::test]
async fn changed_rights_and_namespaces_are_restored(cluster: TestCluster) {
    set_up(&cluster).await;
    cluster.create(&blue()).await;
    until_ready_is(&cluster, "True", "Reconciled").await;

    let binding = cluster.get::<RoleBinding>("blue-dev/tenant-admin").unwrap();
    cluster.patch(&binding, json!({"subjects": []})).await;
    cluster.pass(SECOND).await;
    assert_eq!(subjects(&cluster, "blue-dev"), ["Group oncall"]);

    let namespace = cluster.get::<Namespace>("blue-dev").unwrap();
    cluster.delete(&namespace).await;
    cluster
        .until("it is made again", |now| {
            let again = now.get::<Namespace>("blue-dev");
            again.is_some_and(|again| again.uid() != namespace.uid())
        })
        .await;
    cluster.pass(SECOND).await;
    assert_eq!(subjects(&cluster, "blue-dev"), ["Group oncall"]);
}

#[sendo_test::test]
async fn a_namespace_of_another_owner_is_not_changed(cluster: TestCluster) {
    set_up(&cluster).await;
    let theirs: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "blue-dev"}})).unwrap();
    let theirs = cluster.create(&theirs).await;
    cluster.create(&blue()).await;
    until_ready_is(&cluster, "False", "NamespaceTaken").await;
    cluster.pass(MINUTE).await;
    let now = cluster.get::<Namespace>("blue-dev").unwrap();
    assert_eq!(now.metadata.owner_references, None);
    assert_eq!(subjects(&cluster, "blue-prod"), ["Group oncall"]);
    assert_eq!(events(&cluster)["Warning NamespaceTaken"], 1);

    cluster.delete(&theirs).await;
    until_ready_is(&cluster, "True", "Reconciled").await;
}

#[sendo_test::test]
async fn rights_follow_the_members_in_the_directory(cluster: TestCluster) {
    cluster.install::<Tenant>().await;
    let outside = Arc::new(Mutex::new(Teams::new()));
    let asked = outside.clone();
    let directory = Directory::new(move || Ok(asked.lock().unwrap().clone()));
    cluster.run(manager(Options::new(directory))).await;
    let mut spec = serde_json::to_value(blue().spec).unwrap();
    spec["team"] = json!("sailors");
    cluster.create(&tenant(spec)).await;
    until_ready_is(&cluster, "False", "TeamUnknown").await;

    let members = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let change = |names: &[&str]| {
        let mut outside = outside.lock().unwrap();
        outside.insert("sailors".to_owned(), members(names));
    };
    change(&["ann", "bob"]);
    until_ready_is(&cluster, "True", "Reconciled").await;
    let everybody = ["Group oncall", "User ann", "User bob"];
    assert_eq!(subjects(&cluster, "blue-dev"), everybody);

    change(&["ann"]);
    cluster.pass(SECOND * 11).await;
    assert_eq!(subjects(&cluster, "blue-dev"), ["Group oncall", "User ann"]);
    cluster.stays_quiet_for(HOUR).await;
}

#[sendo_test::test]
async fn a_deleted_tenant_waits_for_its_namespaces(cluster: TestCluster) {
    set_up(&cluster).await;
    let made = cluster.create(&blue()).await;
    until_ready_is(&cluster, "True", "Reconciled").await;
    cluster.delete(&made).await;
    cluster
        .until("tenant and namespaces are gone", |now| {
            let left = now.list::<Namespace>();
            let left = left.iter().any(|n| n.name().starts_with("blue-"));
            let tenant = now.get::<Tenant>("blue");
            assert!(tenant.is_some() || !left, "the tenant went first");
            tenant.is_none()
        })
        .await;
    assert!(
        cluster
            .list::<Role>()
            .iter()
            .all(|r| r.name() != "tenant-admin")
    );
    cluster.stays_quiet_for(HOUR / 2).await;
}

#[sendo_test::test]
async fn a_deleted_definition_leaves_nothing_behind(cluster: TestCluster) {
    set_up(&cluster).await;
    cluster.create(&blue()).await;
    until_ready_is(&cluster, "True", "Reconciled").await;
    let definition = cluster.get::<CustomResourceDefinition>(Tenant::crd_name());
    cluster.delete(&definition.unwrap()).await;
    cluster
        .until("all of it is gone", |now| {
            now.get::<CustomResourceDefinition>(Tenant::crd_name())
                .is_none()
                && now.get::<Namespace>("blue-dev").is_none()
                && now.get::<Namespace>("blue-prod").is_none()
        })
        .await;
}

#[sendo_test::test]
async fn an_invalid_spec_is_refused_with_the_reason(cluster: TestCluster) {
    cluster.install::<Tenant>().await;
    let with = |changes: Value| {
        let mut spec = serde_json::to_value(blue().spec).unwrap();
        for (field, value) in changes.as_object().unwrap() {
            spec[field] = value.clone();
        }
        tenant(spec)
    };
    for (changes, why) in [
        (
            json!({"namespacePrefix": "Blue-"}),
            "spec.namespacePrefix in body should match '^[a-z0-9]([-a-z0-9]*)$'",
        ),
        (
            json!({"namespaces": ["a b"]}),
            "spec.namespaces[0] in body should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
        ),
        (
            json!({"namespaces": ["a", "a"]}),
            "spec.namespaces[1]: Duplicate value: \"a\"",
        ),
        (
            json!({"admins": [{"kind": "User", "name": ""}]}),
            "spec.admins[0].name in body should be at least 1 chars long",
        ),
        (
            json!({"team": ""}),
            "spec.team in body should be at least 1 chars long",
        ),
    ] {
        let refused = cluster.client().create(&with(changes)).await;
        let refusal = refused.unwrap_err().to_string();
        assert!(refusal.contains(why), "{refusal}");
    }
    let made = cluster.create(&blue()).await;
    let rename = Patch::Merge(json!({"spec": {"namespacePrefix": "red-"}}));
    let refusal = cluster.client().patch(&made, rename).await.unwrap_err();
    let why = "spec.namespacePrefix: Invalid value: \"red-\": the prefix cannot be changed: that would delete all namespaces of the tenant";
    assert!(refusal.to_string().contains(why), "{refusal}");
    let robot = Patch::Merge(json!({"spec": {"admins": [{"kind": "Robot", "name": "r"}]}}));
    let refusal = cluster.client().patch(&made, robot).await.unwrap_err();
    let why =
        "spec.admins[0].kind: Unsupported value: \"Robot\": supported values: \"User\", \"Group\"";
    assert!(refusal.to_string().contains(why), "{refusal}");
}

/// Runs the program as its ServiceAccount.
fn start(rights: &Rights, replica: &str) -> Running {
    manager(without_teams())
        .start(rights.replica(replica))
        .unwrap()
}

/// Every right is used in the life of a tenant that drifts, shrinks and goes.
async fn life_of_a_tenant(cluster: &TestCluster) {
    let made = cluster.create(&blue()).await;
    until_ready_is(cluster, "True", "Reconciled").await;
    let role = cluster.get::<Role>("blue-dev/tenant-admin").unwrap();
    cluster.patch(&role, json!({"rules": []})).await;
    let binding = cluster.get::<RoleBinding>("blue-dev/tenant-admin").unwrap();
    cluster.patch(&binding, json!({"subjects": []})).await;
    cluster.pass(SECOND).await;
    for namespaces in [json!(["prod"]), json!(["dev", "prod"])] {
        let change = json!({"spec": {"namespaces": namespaces}});
        cluster.patch(&made, change).await;
        cluster.pass(MINUTE).await;
    }
    cluster.delete(&made).await;
    cluster
        .until("the tenant is gone", |now| now.list::<Tenant>().is_empty())
        .await;
}

#[sendo_test::test]
async fn its_rights_are_enough_and_all_are_used(cluster: TestCluster) {
    cluster.install::<Tenant>().await;
    let rights = cluster.rights(RIGHTS).await;
    let running = start(&rights, "first");
    life_of_a_tenant(&cluster).await;
    running.stop().await.unwrap();

    assert_eq!(rights.refused(), [""; 0]);
    // No request needs these itself: they are checked when roles and bindings are written, and for
    // `blockOwnerDeletion`. Nobody reads its metrics here, and its webhook is called in this
    // process, without a certificate.
    let others = [
        "bind roles.rbac.authorization.k8s.io",
        "create secrets in tenant-controller-system",
        "create subjectaccessreviews.authorization.k8s.io",
        "create tokenreviews.authentication.k8s.io",
        "escalate roles.rbac.authorization.k8s.io",
        "get mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "get secrets in tenant-controller-system",
        "list endpointslices.discovery.k8s.io in tenant-controller-system",
        "list mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "list secrets in tenant-controller-system",
        "update mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "update secrets in tenant-controller-system",
        "update tenants/finalizers.multitenancy.example.dev",
        "watch mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "watch secrets in tenant-controller-system",
    ];
    let mut unused = rights.unused();
    unused.sort();
    assert_eq!(unused, others);
}

#[sendo_test::test]
async fn without_escalate_or_bind_it_cannot_grant_rights_it_does_not_have(cluster: TestCluster) {
    cluster.install::<Tenant>().await;
    let rights = cluster
        .rights(&RIGHTS.replace("  - bind\n  - escalate\n", ""))
        .await;
    let running = start(&rights, "first");
    cluster.create(&blue()).await;
    cluster.pass(MINUTE).await;
    let refused = rights.refused();
    assert!(
        refused.contains(&"create roles.rbac.authorization.k8s.io in blue-dev".to_owned()),
        "{refused:?}"
    );
    running.stop().await.unwrap();
}

#[sendo_test::test]
async fn a_second_run_writes_nothing(cluster: TestCluster) {
    cluster.install::<Tenant>().await;
    let rights = cluster.rights(RIGHTS).await;
    let first = start(&rights, "first");
    cluster.create(&blue()).await;
    until_ready_is(&cluster, "True", "Reconciled").await;
    cluster.pass(MINUTE).await;
    first.stop().await.unwrap();

    let second = start(&rights, "second");
    second.ready().await;
    // It becomes the leader, and an Event says so.
    cluster.pass(MINUTE).await;
    cluster.stays_quiet_for(HOUR).await;
    // Counted by requests: not even one that would have changed nothing.
    let renewals = rights.renewals_of("second");
    assert!(renewals > 1000, "it led, and renewed its lease: {renewals}");
    second.stop().await.unwrap();
}

#[sendo_test::test]
async fn a_replica_takes_over_without_a_missed_or_doubled_action(cluster: TestCluster) {
    cluster.install::<Tenant>().await;
    let rights = cluster.rights(RIGHTS).await;
    let (first, second) = (start(&rights, "first"), start(&rights, "second"));
    first.ready().await;
    second.ready().await;
    let made = cluster.create(&blue()).await;
    until_ready_is(&cluster, "True", "Reconciled").await;

    // The spec is changed while one replica stops and the other takes over.
    let all: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
    let changes = async {
        for count in 1..=all.len() {
            let change = json!({"spec": {"namespaces": all[..count]}});
            cluster.patch(&made, change).await;
            cluster.pass(SECOND).await;
        }
    };
    let handover = async { first.stop().await.unwrap() };
    futures::join!(handover, changes);
    cluster
        .until("all are there", |now| namespaces(now).len() == all.len())
        .await;
    cluster.pass(MINUTE).await;

    // Each was added once, by the leader of the time: two of `blue` and ten more; two removed.
    let both = [rights.writes_of("first"), rights.writes_of("second")];
    let count = |write: &str| {
        let counts = both.iter().filter_map(|writes| writes.get(write));
        counts.sum::<u64>()
    };
    assert_eq!(count("create namespaces"), 12);
    assert_eq!(count("delete namespaces"), 2);
    assert!(
        both[1].contains_key("create namespaces"),
        "the second took over"
    );
    second.stop().await.unwrap();
}

#[sendo_test::test]
async fn every_replica_serves_the_page_and_one_asks_the_directory(cluster: TestCluster) {
    cluster.install::<Tenant>().await;
    let rights = cluster.rights(RIGHTS).await;
    let asked = Arc::new(Mutex::new(BTreeMap::<&str, u64>::new()));
    let start = |name: &'static str| {
        let asked = asked.clone();
        let directory = Directory::new(move || {
            *asked.lock().unwrap().entry(name).or_default() += 1;
            Ok(Teams::new())
        });
        let options = Options {
            page_address: Some("127.0.0.1:0".to_owned()),
            ..Options::new(directory)
        };
        manager(options).start(rights.replica(name)).unwrap()
    };
    let (first, second) = (start("first"), start("second"));
    first.ready().await;
    second.ready().await;
    cluster.pass(MINUTE).await;
    let by_replica = asked.lock().unwrap().clone();
    assert_eq!(by_replica.len(), 1, "only the leader asks: {by_replica:?}");
    let pages = cluster.world().tasks().running();
    let pages = pages.iter().filter(|task| task.contains("page")).count();
    assert!(
        pages >= 2,
        "each has a page: {:?}",
        cluster.world().tasks().running()
    );
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

/// The program reaches the same state with failing requests.
#[sendo_test::test(seeds = 10)]
async fn failures_of_the_api_delay_but_do_not_change_the_result(cluster: TestCluster) {
    cluster.install::<Tenant>().await;
    let faults = Faults::new(cluster.world(), 0.3);
    let running = manager(without_teams())
        .start(cluster.faulty(&faults))
        .unwrap();
    let made = cluster.create(&blue()).await;
    cluster.pass(MINUTE).await;
    cluster
        .patch(&made, json!({"spec": {"namespaces": ["prod", "test"]}}))
        .await;
    cluster.pass(MINUTE).await;
    assert!(faults.injected() > 0);
    faults.end();
    cluster
        .until("prod and test are there, with their rights", |now| {
            namespaces(now) == ["blue-prod", "blue-test"]
                && now.get::<Namespace>("blue-dev").is_none()
                && now.get::<RoleBinding>("blue-test/tenant-admin").is_some()
                && ready(now).0 == "True"
        })
        .await;
    let again = cluster.get::<Tenant>("blue").unwrap();
    cluster.delete(&again).await;
    cluster
        .until("nothing is left", |now| {
            now.get::<Tenant>("blue").is_none() && namespaces(now).is_empty()
        })
        .await;
    running.stop().await.unwrap();
}

#[test]
fn what_is_checked_in_is_what_the_program_prints() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");
    let check = std::process::Command::new(env!("CARGO_BIN_EXE_tenant"))
        .args(["manifests", "--check", folder])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&check.stdout);
    assert!(check.status.success(), "{said}");
}

#[sendo_test::test]
async fn what_is_printed_is_valid_and_its_pods_run_under_the_restricted_standard(
    cluster: TestCluster,
) {
    let program = manager(without_teams());
    cluster
        .deploy(&program, &sendo::manifests::Options::new(&program))
        .await;
    cluster
        .until("the pod runs", |now| {
            let name = "tenant-controller-system/tenant-controller";
            let deployment = now.get::<k8s_openapi::api::apps::v1::Deployment>(name);
            let status = deployment.and_then(|deployment| deployment.status);
            status.is_some_and(|status| status.available_replicas == Some(1))
        })
        .await;
}

#[test]
fn the_sample_has_only_known_fields() {
    let sample: Value = serde_saphyr::from_str(include_str!("../samples/tenant.yaml")).unwrap();
    let decoded: Tenant = serde_json::from_value(sample.clone()).unwrap();
    let again = serde_json::to_value(decoded).unwrap();
    assert_eq!(again["spec"], sample["spec"]);
}
