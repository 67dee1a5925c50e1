//! A real S3 server in memory with one bucket, to try the controller on.

use sendo::World;
use storage_bucket::local_store::LocalStore;
use storage_bucket::store::Credentials;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let world = World::real();
    // As in samples/bucket.yaml.
    let credentials = Credentials::new("demo", "demo-secret");
    let store = LocalStore::on_loopback(&world, &credentials, 9000)?;
    store.create_bucket("backups");
    println!("bucket `backups` at {}; Ctrl-C ends it", store.endpoint());
    tokio::signal::ctrl_c().await?;
    world.tasks().stop().await;
    Ok(())
}
