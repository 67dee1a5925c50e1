//~ cannot set defaults of
//~ a defaulter is `async fn(&mut K, Admission) -> Result<(), sendo::webhook::Denied>`

use sendo::k8s_openapi::api::core::v1::ConfigMap;
use sendo::webhook::{self, Admission};

async fn set_defaults(_: &mut ConfigMap, _: Admission) {}

fn main() {
    webhook::defaults(set_defaults);
}
