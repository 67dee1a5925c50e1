//! The program: runs on the cluster that its flags or its surroundings name.

use storage_bucket::http::Http;
use storage_bucket::{Options, manager};

#[tokio::main]
async fn main() -> sendo::Result<()> {
    let options = Options::new(Http::over_sockets()?);
    manager(options).run_from_args().await
}
