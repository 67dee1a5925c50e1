//! Prints the CustomResourceDefinition of Bar, for `kubectl apply -f -`.

use bar::Bar;
use kube::CustomResourceExt;

fn main() -> Result<(), serde_json::Error> {
    serde_json::to_writer_pretty(std::io::stdout(), &Bar::crd())
}
