//! CronJobs: a Job whenever their schedule says so.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use sendo::{ObjectExt, Timestamp};
use sendo_test::{TestCluster, View};
use serde_json::{Value, json};

use super::{events_about, object, with_faults};

/// A CronJob in `default` whose Jobs run for that long.
fn cron_job(schedule: &str, run_for: &str, more: Value) -> CronJob {
    let annotations = json!({"simulation.sendo.dev/run-for": run_for});
    let mut spec = json!({"schedule": schedule, "jobTemplate": {
        "metadata": {"labels": {"of": "c"}},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "example.dev/app:1"}],
        }}},
    }});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    object(json!({"metadata": {"name": "c", "namespace": "default"}, "spec": spec}))
}

fn jobs(now: &View) -> Vec<Job> {
    let mut jobs = now.list::<Job>();
    jobs.retain(|job| job.label("of") == Some("c"));
    jobs
}

fn status(now: &View) -> CronJobStatus {
    let found = now.get::<CronJob>("default/c");
    found.and_then(|found| found.status).unwrap_or_default()
}

fn scheduled_at(job: &Job) -> Timestamp {
    let text = job.annotation("batch.kubernetes.io/cronjob-scheduled-timestamp");
    text.expect("an annotation").parse().expect("a time")
}

async fn until_jobs(cluster: &TestCluster, count: usize) -> Vec<Job> {
    cluster
        .until(&format!("there are {count} Jobs"), |now| {
            jobs(now).len() == count
        })
        .await;
    cluster.now(jobs)
}

#[sendo_test::test]
async fn a_job_is_created_at_its_minute(cluster: TestCluster) {
    let made = cluster
        .create(&cron_job("*/5 * * * *", "1s", json!({})))
        .await;
    let jobs = until_jobs(&cluster, 1).await;
    let job = &jobs[0];
    let at = scheduled_at(job);
    assert_eq!(at.as_second() % 300, 0);
    assert_eq!(job.name(), format!("c-{}", at.as_second() / 60));
    assert!(job.is_controlled_by(&made));
    let late = cluster.world().clock().wall().duration_since(at).as_secs();
    assert!((0..2).contains(&late), "{late} s late");
    cluster
        .until("it is not active any more", |now| {
            let status = status(now);
            status.active.is_none() && status.last_successful_time.is_some()
        })
        .await;
    assert_eq!(
        cluster.now(status).last_schedule_time.map(|time| time.0),
        Some(at)
    );
    cluster.pass(Duration::from_secs(1)).await;
    let events = events_about(&cluster, made.uid().as_str());
    let expected = [
        format!("SuccessfulCreate Created job {}", job.name()),
        format!(
            "SawCompletedJob Saw completed job: {}, condition: Complete",
            job.name()
        ),
    ];
    assert_eq!(events, expected);
}

#[sendo_test::test]
async fn a_schedule_is_in_its_time_zone(cluster: TestCluster) {
    let more = json!({"timeZone": "Asia/Kolkata"});
    cluster.create(&cron_job("0 6 * * *", "1s", more)).await;
    cluster.pass(Duration::from_secs(86_400)).await;
    let jobs = until_jobs(&cluster, 1).await;
    // 6:00 in India is 0:30 in UTC.
    assert_eq!(scheduled_at(&jobs[0]).as_second() % 86_400, 1800);
    let text = jobs[0].annotation("batch.kubernetes.io/cronjob-scheduled-timestamp");
    assert!(
        text.is_some_and(|text| text.ends_with("T06:00:00+05:30")),
        "{text:?}"
    );
}

#[sendo_test::test]
async fn the_newest_finished_jobs_are_kept(cluster: TestCluster) {
    let more = json!({"successfulJobsHistoryLimit": 2});
    let made = cluster.create(&cron_job("* * * * *", "1s", more)).await;
    cluster.pass(Duration::from_secs(600)).await;
    cluster
        .patch(&made, json!({"spec": {"suspend": true}}))
        .await;
    let kept = until_jobs(&cluster, 2).await;
    let last = cluster.now(status).last_schedule_time.map(|time| time.0);
    assert_eq!(kept.iter().map(scheduled_at).max(), last);
    cluster.pass(Duration::from_secs(60)).await;
    cluster.stays_quiet_for(Duration::from_secs(86_400)).await;
}

#[sendo_test::test]
async fn concurrency_is_allowed_forbidden_or_replaced(cluster: TestCluster) {
    for (policy, expected) in [("Allow", 4), ("Forbid", 1), ("Replace", 1)] {
        let more = json!({"concurrencyPolicy": policy});
        let made = cluster
            .create(&cron_job("* * * * *", "forever", more))
            .await;
        let first = until_jobs(&cluster, 1).await;
        cluster.pass(Duration::from_secs(185)).await;
        let active = cluster.now(status).active.unwrap_or_default();
        assert_eq!(active.len(), expected, "{policy}");
        let is_first = active[0].uid == first[0].metadata.uid;
        assert_eq!(is_first, policy != "Replace", "{policy}");
        cluster.delete(&made).await;
        until_jobs(&cluster, 0).await;
    }
}

#[sendo_test::test]
async fn a_missed_run_starts_late_unless_its_deadline_has_passed(cluster: TestCluster) {
    let more = json!({"suspend": true, "startingDeadlineSeconds": 7200});
    let made = cluster.create(&cron_job("0 * * * *", "1s", more)).await;
    cluster.pass(Duration::from_secs(3 * 3600 + 600)).await;
    assert!(cluster.now(jobs).is_empty(), "it is suspended");
    cluster
        .patch(&made, json!({"spec": {"suspend": false}}))
        .await;
    let late = until_jobs(&cluster, 1).await;
    let now = cluster.world().clock().wall();
    assert!(
        now.duration_since(scheduled_at(&late[0])).as_secs() < 3600,
        "the latest run"
    );
    cluster
        .patch(
            &made,
            json!({"spec": {"suspend": true, "startingDeadlineSeconds": 30}}),
        )
        .await;
    cluster.pass(Duration::from_secs(2 * 3600 + 120)).await;
    let known = cluster.now(jobs).len();
    cluster
        .patch(&made, json!({"spec": {"suspend": false}}))
        .await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(
        cluster.now(jobs).len(),
        known,
        "no run is due within 30 seconds"
    );
}

#[sendo_test::test(seeds = 3)]
async fn faults_neither_skip_nor_repeat_a_run(beside: TestCluster) {
    let (cluster, faults) = with_faults(&beside, "cronjob-controller", 0.3).await;
    let more = json!({"successfulJobsHistoryLimit": 100});
    let made = cluster.create(&cron_job("*/10 * * * *", "1s", more)).await;
    cluster.pass(Duration::from_secs(6 * 600)).await;
    cluster
        .patch(&made, json!({"spec": {"suspend": true}}))
        .await;
    faults.end();
    cluster.pass(Duration::from_secs(60)).await;
    let mut times: Vec<_> = cluster.now(jobs).iter().map(scheduled_at).collect();
    times.sort();
    times.dedup();
    assert_eq!(times.len(), cluster.now(jobs).len());
    assert!((5..=6).contains(&times.len()), "{times:?}");
    assert!(faults.injected() > 0);
    cluster.stop().await;
}
