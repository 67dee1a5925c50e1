//! What Prometheus and Grafana are told of the program, when it is asked for.

use serde_json::json;

use super::model::{File, Item, Model};
use super::options::Extra;

/// A dashboard of the metrics that every program has; `PROGRAM` stands for its name.
const DASHBOARD: &str = include_str!("dashboard.json");

pub(super) fn objects(model: &Model<'_>) -> Vec<Item> {
    let metadata = model.named_here(&model.name);
    let monitor = json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": metadata,
        "spec": {
            "endpoints": [{
                "port": "metrics",
                "path": "/metrics",
                "scheme": "https",
                "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                "tlsConfig": {"insecureSkipVerify": true},
            }],
            "selector": {"matchLabels": model.pod_labels()},
        },
    });
    let mut metadata = model.named_here(&format!("{}-dashboard", model.name));
    let labels = metadata.labels.get_or_insert_default();
    labels.insert("grafana_dashboard".to_owned(), "1".to_owned());
    let file = format!("{}.json", model.manager.name);
    let dashboard = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {file: DASHBOARD.replace("PROGRAM", &model.manager.name)},
    });
    vec![
        Item::untyped(File::Monitoring, monitor)
            .comment("By which the Prometheus operator finds the metrics.")
            .note(
                "/spec/endpoints/0/tlsConfig",
                "The certificate is signed by itself; the token shows who asks.",
            )
            .extra(Extra::ServiceMonitor),
        Item::untyped(File::Monitoring, dashboard)
            .comment("A dashboard, which Grafana's sidecar finds by its label.")
            .extra(Extra::Dashboard),
    ]
}
