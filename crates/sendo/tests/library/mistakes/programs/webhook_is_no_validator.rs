//~ cannot validate
//~ a validator is `async fn(Change<K>, Admission) -> Result<(), sendo::webhook::Denied>`

use sendo::webhook;

struct Checks;

fn main() {
    webhook::validates::<sendo::k8s_openapi::api::core::v1::ConfigMap>(Checks);
}
