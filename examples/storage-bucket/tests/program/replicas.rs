//! Several replicas, with the rights of the service account, and with failing requests.

use sendo::{Running, Timestamp};
use sendo_test::{Faults, Rights, TestCluster};
use storage_bucket::api::{Creation, DeletionPolicy};
use storage_bucket::manager;

use crate::{Fixture, HOUR, MINUTE};

const RIGHTS: &str = include_str!("../../deploy/20-rbac.yaml");

/// A fixture with the Secret, and the rights of the program's account.
async fn fixture_and_rights(cluster: &TestCluster) -> (Fixture, Rights) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_secret("default", "secret").await;
    let rights = cluster.rights(RIGHTS).await;
    (fixture, rights)
}

/// Runs the program as its ServiceAccount.
fn start(fixture: &Fixture, rights: &Rights, replica: &str) -> Running {
    let program = manager(fixture.options());
    program.start(rights.replica(replica)).unwrap()
}

#[sendo_test::test]
async fn its_rights_are_enough_and_all_are_used(cluster: TestCluster) {
    let (fixture, rights) = fixture_and_rights(&cluster).await;
    let running = start(&fixture, &rights, "first");
    let made = fixture
        .healthy(&fixture.managed(DeletionPolicy::Delete))
        .await;
    for _ in 0..2 {
        fixture.store.stop().await;
        fixture.until_ready_is("Unreachable").await;
        fixture.store.start().unwrap();
        fixture.until_ready_is("Healthy").await;
    }
    cluster.delete(&made).await;
    fixture.until_resources_are_gone().await;
    running.stop().await.unwrap();
    assert_eq!(rights.refused(), [""; 0]);
    // Nobody reads its metrics here.
    let reviews = [
        "create tokenreviews.authentication.k8s.io",
        "create subjectaccessreviews.authorization.k8s.io",
    ];
    assert_eq!(rights.unused(), reviews);
}

#[sendo_test::test]
async fn a_replica_takes_over_without_a_missed_or_doubled_check(cluster: TestCluster) {
    let (fixture, rights) = fixture_and_rights(&cluster).await;
    let first = start(&fixture, &rights, "first");
    let second = start(&fixture, &rights, "second");
    first.ready().await;
    second.ready().await;
    fixture
        .healthy(&fixture.managed(DeletionPolicy::Retain))
        .await;
    cluster.pass(MINUTE * 10).await;
    first.stop().await.unwrap();
    cluster.pass(MINUTE * 10).await;

    // The times of all checks: one a minute, by any replica.
    let mut checks: Vec<Timestamp> = fixture
        .values_of("lastCheckTime")
        .iter()
        .map(|time| time.parse().unwrap())
        .collect();
    let writes = checks.len();
    checks.dedup();
    assert_eq!(writes, checks.len(), "each was written once");
    assert!(checks.len() >= 19, "{checks:?}");
    for pair in checks.windows(2) {
        let gap = pair[1].duration_since(pair[0]).as_secs();
        assert!((55..=75).contains(&gap), "{gap} s between two checks");
    }
    assert_eq!(fixture.events()["Normal Created"], 1);
    let by_second = rights.writes_of("second");
    let status = "patch storagebuckets/status.storage.example.dev";
    assert!(
        by_second[status] >= 9,
        "the second took over: {by_second:?}"
    );
    second.stop().await.unwrap();
}

#[sendo_test::test]
async fn a_second_run_on_a_bucket_at_rest_writes_nothing(cluster: TestCluster) {
    let (fixture, rights) = fixture_and_rights(&cluster).await;
    let first = start(&fixture, &rights, "first");
    let mut bucket = fixture.managed(DeletionPolicy::Delete);
    // Between two checks, which are a day apart, there is nothing to write.
    bucket.spec.check_every_seconds = 86400;
    fixture.healthy(&bucket).await;
    cluster.pass(MINUTE).await;
    first.stop().await.unwrap();

    let second = start(&fixture, &rights, "second");
    second.ready().await;
    // It becomes the leader, and an Event says so.
    cluster.pass(MINUTE).await;
    cluster.stays_quiet_for(HOUR).await;
    // Counted by requests: not even one that would have changed nothing.
    let renewals = rights.renewals_of("second");
    assert!(renewals > 1000, "it led, and renewed its lease: {renewals}");
    second.stop().await.unwrap();
}

/// The program reaches the same state with failing requests.
#[sendo_test::test(seeds = 10)]
async fn failures_of_the_api_delay_but_do_not_change_the_result(cluster: TestCluster) {
    let fixture = Fixture::new(&cluster).await;
    fixture.create_secret("default", "secret").await;
    let faults = Faults::new(cluster.world(), 0.3);
    let program = manager(fixture.options());
    let running = program.start(cluster.faulty(&faults)).unwrap();
    let made = cluster
        .create(&fixture.managed(DeletionPolicy::Delete))
        .await;
    cluster.pass(MINUTE * 5).await;
    fixture.store.stop().await;
    cluster.pass(MINUTE * 5).await;
    fixture.store.start().unwrap();
    assert!(faults.injected() > 0);
    faults.end();
    fixture.until_ready_is("Healthy").await;
    assert_eq!(fixture.status().creation, Some(Creation::Succeeded));

    cluster.delete(&made).await;
    fixture.until_resources_are_gone().await;
    assert_eq!(fixture.store.objects("new-bucket"), None);
    running.stop().await.unwrap();
}
