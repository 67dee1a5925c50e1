//! Prints the CustomResourceDefinition of StorageBucket, for `kubectl apply -f -`.

use kube::CustomResourceExt;
use storage_bucket::api::StorageBucket;

fn main() -> Result<(), serde_json::Error> {
    serde_json::to_writer_pretty(std::io::stdout(), &StorageBucket::crd())
}
