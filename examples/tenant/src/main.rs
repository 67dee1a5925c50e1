//! The program: runs on the cluster that its flags or its environment name.

use tenant::{Options, manager};

#[tokio::main]
async fn main() -> sendo::Result<()> {
    manager(Options::from_environment()).run_from_args().await
}
