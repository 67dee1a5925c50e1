//! Prints the CustomResourceDefinition of Tenant, for `kubectl apply -f -`.

use kube::CustomResourceExt;
use tenant::api::Tenant;

fn main() -> Result<(), serde_json::Error> {
    serde_json::to_writer_pretty(std::io::stdout(), &Tenant::crd())
}
