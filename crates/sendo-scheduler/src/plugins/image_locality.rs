//! Images that a node has already.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/imagelocality/image_locality.go`: `Score`,
//!   `calculatePriority`, `sumImageScores`, `normalizedImageName`

use crate::framework::{Cycle, MAX_NODE_SCORE, Plugin, PreScore};
use crate::snapshot::node_info::NodeInfo;

const MIB: i64 = 1 << 20;
const MIN_THRESHOLD: i64 = 23 * MIB;
const MAX_CONTAINER_THRESHOLD: i64 = 1000 * MIB;

/// Prefers nodes that have large images of the pod.
#[derive(Clone, Copy, Debug)]
pub struct ImageLocality;

/// The images of the pod under their whole names.
#[derive(Clone)]
struct Images {
    names: Vec<String>,
    containers: i64,
}

/// The name with the tag that is meant when it has none.
fn whole_name(image: &str) -> String {
    match image.rfind(':') > image.rfind('/') {
        true => image.to_owned(),
        false => format!("{image}:latest"),
    }
}

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn pre_score(&self, cycle: &mut Cycle<'_>, _: &[&NodeInfo]) -> PreScore {
        let pod = &cycle.pod.pod;
        let containers = pod.containers().filter_map(|c| c.image.as_deref());
        let volumes = pod
            .volumes()
            .iter()
            .filter_map(|volume| volume.image.as_ref());
        let volumes = volumes.filter_map(|image| image.reference.as_deref());
        let names = containers.chain(volumes).map(whole_name);
        // An image that no node has changes no score.
        let names = names.filter(|name| cycle.snapshot.nodes_with_image(name) > 0);
        let images = Images {
            names: names.collect(),
            containers: pod.containers().count().max(1) as i64,
        };
        if images.names.is_empty() {
            return PreScore::Skip;
        }
        cycle.state.write(images);
        PreScore::Score
    }

    fn score(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> i64 {
        let Some(images) = cycle.state.get::<Images>() else {
            return 0;
        };
        let nodes = cycle.snapshot.node_count().max(1) as f64;
        let score = |name: &String| {
            let size = node.images.get(name).copied().unwrap_or_default();
            let spread = f64::from(cycle.snapshot.nodes_with_image(name)) / nodes;
            (size as f64 * spread) as i64
        };
        let sum: i64 = images.names.iter().map(score).sum();
        let most = MAX_CONTAINER_THRESHOLD * images.containers;
        MAX_NODE_SCORE * (sum.clamp(MIN_THRESHOLD, most) - MIN_THRESHOLD) / (most - MIN_THRESHOLD)
    }
}
