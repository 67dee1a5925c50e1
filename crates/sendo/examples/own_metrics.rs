//! Metrics of one's own, beside those of the library: how many ConfigMaps were
//! looked at, and how large each of them is.
//!
//! Run it with `--metrics-address :8080` and scrape `/metrics`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use sendo::metrics::{Counter, Family, Gauge};
use sendo::{Action, Context, Controller, Manager, ObjectKey, Reconcile, Result};

/// The values of the labels of one series.
type Labels = Vec<(&'static str, String)>;

/// Clones share their values: the registry has one, the reconciler another.
#[derive(Clone, Debug, Default)]
struct Sizes {
    checked: Counter,
    bytes: Family<Labels, Gauge>,
}

/// The program, with its metrics registered.
pub fn manager() -> Manager {
    let sizes = Sizes::default();
    Manager::new("config-sizes")
        // There is no global registry. A name that is taken is an error at the start.
        .metric(
            "config_maps_checked_total",
            "ConfigMaps that were looked at",
            sizes.checked.clone(),
        )
        .metric(
            "config_map_bytes",
            "Size of the data of each ConfigMap",
            sizes.bytes.clone(),
        )
        .controller(Controller::new::<ConfigMap>().reconcile(sizes))
}

impl Reconcile<ConfigMap> for Sizes {
    async fn reconcile(&self, map: Arc<ConfigMap>, cx: Context) -> Result<Action> {
        let data = map.data.iter().flatten();
        let bytes: usize = data.map(|(name, value)| name.len() + value.len()).sum();
        let series = self.bytes.get_or_create(&labels(cx.key()));
        series.set(i64::try_from(bytes)?);
        self.checked.inc();
        Ok(Action::done())
    }

    /// Called when the object is no more, so that its series goes too.
    async fn gone(&self, key: ObjectKey, _: Context) -> Result<()> {
        self.bytes.remove(&labels(&key.to_string()));
        Ok(())
    }
}

fn labels(key: &str) -> Labels {
    vec![("key", key.to_owned())]
}

#[tokio::main]
async fn main() -> Result<()> {
    manager().run_from_args().await
}
