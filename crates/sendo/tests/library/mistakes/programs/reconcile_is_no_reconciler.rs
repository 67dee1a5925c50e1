//~ `Reconciler` cannot reconcile `ConfigMap`
//~ a reconciler is `async fn(Arc<ConfigMap>, Context) -> sendo::Result<Action>`, or a type with `impl Reconcile<ConfigMap>`

use sendo::k8s_openapi::api::core::v1::ConfigMap;
use sendo::Controller;

struct Reconciler;

fn main() {
    Controller::new::<ConfigMap>().reconcile(Reconciler);
}
