//! Cluster roles that gather the rules of others.

use std::time::Duration;

use k8s_openapi::api::rbac::v1::ClusterRole;
use sendo_test::TestCluster;
use serde_json::json;

use super::object;

fn reader(name: &str, resource: &str) -> ClusterRole {
    object(json!({
        "metadata": {"name": name, "labels": {"to": "team"}},
        "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}],
    }))
}

#[sendo_test::test]
async fn what_is_gathered_belongs_to_the_controller(cluster: TestCluster) {
    let team: ClusterRole = object(json!({
        "metadata": {"name": "team"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "team"}}]},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}],
    }));
    let team = cluster.create(&team).await;
    cluster.pass(Duration::from_secs(10)).await;
    let now = cluster.get::<ClusterRole>("team").unwrap();
    assert_eq!(
        now.rules, team.rules,
        "nothing is gathered, nothing is said"
    );

    let pods = cluster.create(&reader("pods", "pods")).await;
    cluster
        .until("it has the rules of the other", |now| {
            now.get::<ClusterRole>("team")
                .is_some_and(|team| team.rules == pods.rules)
        })
        .await;
    let managers = cluster.get::<ClusterRole>("team").unwrap().metadata;
    let managers = managers.managed_fields.unwrap_or_default();
    let gatherer = managers
        .iter()
        .find(|entry| entry.operation.as_deref() == Some("Apply"));
    let name = gatherer.and_then(|entry| entry.manager.as_deref());
    assert_eq!(name, Some("clusterrole-aggregation-controller"));

    cluster.delete(&pods).await;
    cluster
        .until("it has none again", |now| {
            now.get::<ClusterRole>("team")
                .is_some_and(|team| team.rules.unwrap_or_default().is_empty())
        })
        .await;
}
