//! A webhook that makes what it is itself called for, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use sendo::Manager;
use sendo::webhook::{self, Admission, Change, Denied, Operation::*};
use sendo_test::TestCluster;
use serde_json::json;

/// The longest that a review may take by default.
const TIMEOUT: Duration = Duration::from_secs(10);

fn config_map() -> ConfigMap {
    let metadata = json!({"generateName": "map-", "namespace": "work"});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

#[sendo_test::test]
async fn a_webhook_that_calls_for_itself_without_end_runs_out_of_time(cluster: TestCluster) {
    let work = json!({"metadata": {"name": "work"}});
    let work: Namespace = serde_json::from_value(work).unwrap();
    cluster.create(&work).await;
    let client = cluster.client().clone();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let validate = move |_: Change<ConfigMap>, _: Admission| {
        let client = client.clone();
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            client.create(&config_map()).await?;
            Ok::<_, Denied>(())
        }
    };
    let webhook = webhook::validates(validate)
        .on(Create)
        .except_own_namespace();
    cluster.run(Manager::new("endless").webhook(webhook)).await;

    let (clock, began) = (cluster.world().clock(), cluster.world().clock().now());
    let refused = cluster.client().create(&config_map()).await.unwrap_err();
    let told = "failed calling webhook \"validate.configmaps.endless\"";
    assert!(refused.to_string().contains(told), "{refused}");
    assert!(clock.now() - began <= TIMEOUT);
    assert!(calls.load(Ordering::Relaxed) > 1);

    // All of them are over, and nothing was stored.
    cluster.pass(TIMEOUT * 2).await;
    let before = calls.load(Ordering::Relaxed);
    cluster.pass(TIMEOUT * 2).await;
    assert_eq!(calls.load(Ordering::Relaxed), before);
    let maps = cluster.list::<ConfigMap>();
    let made = maps
        .iter()
        .filter_map(|map| map.metadata.generate_name.as_deref());
    assert_eq!(made.filter(|name| *name == "map-").count(), 0);
}
