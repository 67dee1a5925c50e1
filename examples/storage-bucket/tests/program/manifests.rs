//! What the program prints about itself.

use std::process::Command;

use k8s_openapi::api::apps::v1::Deployment;
use sendo::manifests::Options;
use sendo_test::TestCluster;
use storage_bucket::manager;

use crate::Fixture;

#[test]
fn what_is_checked_in_is_what_the_program_prints() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");
    let check = Command::new(env!("CARGO_BIN_EXE_storage-bucket"))
        .args(["manifests", "--check", folder])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&check.stdout);
    assert!(check.status.success(), "{said}");
}

#[sendo_test::test]
async fn what_is_printed_is_valid_and_its_pods_run_under_the_restricted_standard(
    cluster: TestCluster,
) {
    let program = manager(Fixture::new(&cluster).await.options());
    let options = Options {
        replicas: 2,
        ..Options::new(&program)
    };
    cluster.deploy(&program, &options).await;
    cluster
        .until("the pods run", |now| {
            let deployment = now.get::<Deployment>("storage-bucket-system/storage-bucket");
            let status = deployment.and_then(|deployment| deployment.status);
            status.is_some_and(|status| status.available_replicas == Some(2))
        })
        .await;
}
