//! The program: runs on the cluster that its flags or its environment name.

use sendo::Error;
use storage_bucket::egress::{Egress, Network};
use storage_bucket::http::Http;
use storage_bucket::{Options, manager};

#[tokio::main]
async fn main() -> sendo::Result<()> {
    let options = Options::new(Http::over_sockets(egress()?)?);
    manager(options).run_from_args().await
}

/// The networks in `STORAGE_BUCKET_ALLOW`, separated by commas.
fn egress() -> sendo::Result<Egress> {
    let text = std::env::var("STORAGE_BUCKET_ALLOW").unwrap_or_default();
    let words = text.split(',').filter(|word| !word.trim().is_empty());
    let networks: Result<Vec<Network>, _> = words.map(|word| word.trim().parse()).collect();
    let invalid = |error| Error::terminal(format!("STORAGE_BUCKET_ALLOW: {error}"));
    Ok(Egress::allowing(networks.map_err(invalid)?))
}
