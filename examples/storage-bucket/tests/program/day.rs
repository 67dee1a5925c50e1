//! A day of checks in virtual time, twice: the same seed gives the same day, to the byte.

use std::time::Duration;

use sendo_test::{TestCluster, record};
use storage_bucket::{Options, manager};

use crate::{Fixture, HOUR};

/// Checks every five minutes; the store is down from 9 to 10 o'clock.
async fn a_day(cluster: TestCluster) {
    let fixture = Fixture::new(&cluster).await;
    fixture.create_secret("default", "secret").await;
    let options = Options {
        tick_every: Duration::from_secs(60),
        ..fixture.options()
    };
    cluster.run(manager(options)).await;
    let mut bucket = fixture.observed();
    bucket.spec.check_every_seconds = 300;
    cluster.create(&bucket).await;

    let healthy = || fixture.status().healthy;
    cluster.pass(9 * HOUR).await;
    assert_eq!(healthy(), Some(true));
    fixture.store.stop().await;
    cluster.pass(HOUR).await;
    assert_eq!(healthy(), Some(false));
    fixture.store.start().unwrap();
    cluster.pass(14 * HOUR).await;
    assert_eq!(healthy(), Some(true));

    let expected = [("Normal Healthy", 2), ("Warning Unreachable", 1)];
    let expected = expected.map(|(event, count)| (event.to_owned(), count));
    assert_eq!(fixture.events(), expected.into());
}

#[test]
fn a_seed_gives_the_same_day_to_the_byte() {
    let first = record(1, a_day);
    let second = record(1, a_day);
    assert!(
        first.changes.lines().count() > 288,
        "a check every five minutes leaves a trace"
    );
    assert!(first.log == second.log, "the logs differ");
    assert!(first.changes == second.changes, "the changes differ");
}
