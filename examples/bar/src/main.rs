//! The program: runs on the cluster that its flags or its environment name.

#[tokio::main]
async fn main() -> sendo::Result<()> {
    bar::manager().run_from_args().await
}
