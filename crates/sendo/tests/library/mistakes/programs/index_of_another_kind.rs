//~ expected `&Index<ConfigMap, _>`, found `&Index<Pod, String>`

use sendo::k8s_openapi::api::core::v1::{ConfigMap, Pod};
use sendo::{Context, Index};

static BY_NODE: Index<Pod, String> = Index::new("by-node", |pod| pod.spec.as_ref()?.node_name.clone());

fn look_up(cx: Context) {
    cx.list::<ConfigMap>().by(&BY_NODE, "n");
}

fn main() {}
