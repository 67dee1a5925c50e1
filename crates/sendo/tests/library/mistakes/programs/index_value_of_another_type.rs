//~ required by a bound in `Listing::<'f, K>::by`
//~ `String` implements `From<&str>`

use sendo::k8s_openapi::api::core::v1::Pod;
use sendo::{Context, Index};

static BY_NODE: Index<Pod, String> = Index::new("by-node", |pod| pod.spec.as_ref()?.node_name.clone());

fn look_up(cx: Context) {
    cx.list::<Pod>().by(&BY_NODE, 7);
}

fn main() {}
