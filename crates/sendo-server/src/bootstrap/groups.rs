//! Creates the APIServices of the groups that this server serves itself.

use std::sync::Arc;

use futures::future::try_join_all;
use serde_json::json;

use super::create;
use crate::bootstrap::StartError;
use crate::state::Server;

/// A group, how it ranks among all, and its versions with how those rank in the group.
type Ranked = (&'static str, u32, &'static [(&'static str, u32)]);

/// The ranks are those of Kubernetes: clients sort by them.
const GROUPS: [Ranked; 20] = [
    ("", 18000, &[("v1", 1)]),
    ("apps", 17800, &[("v1", 15)]),
    ("events.k8s.io", 17750, &[("v1", 15)]),
    ("authentication.k8s.io", 17700, &[("v1", 15)]),
    ("authorization.k8s.io", 17600, &[("v1", 15)]),
    ("autoscaling", 17500, &[("v2", 30), ("v1", 15)]),
    ("batch", 17400, &[("v1", 15)]),
    ("certificates.k8s.io", 17300, &[("v1", 15)]),
    ("networking.k8s.io", 17200, &[("v1", 15)]),
    ("policy", 17100, &[("v1", 15)]),
    ("rbac.authorization.k8s.io", 17000, &[("v1", 15)]),
    ("storage.k8s.io", 16800, &[("v1", 15)]),
    ("admissionregistration.k8s.io", 16700, &[("v1", 15)]),
    ("apiextensions.k8s.io", 16700, &[("v1", 15)]),
    ("scheduling.k8s.io", 16600, &[("v1", 15)]),
    ("coordination.k8s.io", 16500, &[("v1", 15)]),
    ("node.k8s.io", 16300, &[("v1", 15)]),
    ("discovery.k8s.io", 16200, &[("v1", 15)]),
    ("resource.k8s.io", 16200, &[("v1", 21)]),
    ("flowcontrol.apiserver.k8s.io", 16100, &[("v1", 21)]),
];

/// Creates an APIService for each version of each group that is served.
pub(super) async fn create_all(server: &Arc<Server>) -> Result<(), StartError> {
    let catalog = server.catalog();
    let mut services = Vec::new();
    for (group, priority, versions) in GROUPS {
        for (version, rank) in versions {
            let served = catalog.group(group);
            if served.is_none_or(|group| group.resources(version).is_none()) {
                continue;
            }
            let labels = json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"});
            let service = json!({
                "metadata": {"name": format!("{version}.{group}"), "labels": labels},
                "spec": {
                    "group": group,
                    "version": version,
                    "groupPriorityMinimum": priority,
                    "versionPriority": rank,
                },
            });
            let path = "/apis/apiregistration.k8s.io/v1/apiservices";
            services.push(create(server, path, service));
        }
    }
    try_join_all(services).await.map(drop)
}
