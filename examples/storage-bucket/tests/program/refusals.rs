//! Validation: what the API server refuses, with which message.

use sendo::Patch;
use sendo_test::TestCluster;
use serde_json::json;
use storage_bucket::api::{ManagementPolicy, SecretReference, StorageBucketSpec};

use crate::Fixture;

#[sendo_test::test]
async fn an_invalid_spec_is_refused_with_the_reason(cluster: TestCluster) {
    let fixture = Fixture::new(&cluster).await;
    type Spoil = fn(&mut StorageBucketSpec);
    let wrong: [(&str, Spoil); 7] = [
        ("spec.endpoint in body should match '^https?://", |spec| {
            spec.endpoint = "ftp://store".to_owned();
        }),
        (
            "spec.bucket in body should be at least 3 chars long",
            |spec| {
                spec.bucket = "no".to_owned();
            },
        ),
        (
            "spec.bucket in body should match '^[a-z0-9][a-z0-9.-]*[a-z0-9]$'",
            |spec| {
                spec.bucket = "Logs".to_owned();
            },
        ),
        (
            "spec.region in body should match '^[A-Za-z0-9_-]+$'",
            |spec| {
                spec.region = "the moon".to_owned();
            },
        ),
        (
            "spec.checkEverySeconds in body should be greater than or equal to 5",
            |spec| {
                spec.check_every_seconds = 1;
            },
        ),
        (
            "spec.credentialsSecretRef.name in body should be at least 1 chars long",
            |spec| {
                spec.credentials_secret_ref = Some(SecretReference {
                    name: String::new(),
                });
            },
        ),
        (
            "spec: Invalid value: a bucket is managed with credentials only: set credentialsSecretRef, or managementPolicy to Observe",
            |spec| {
                spec.management_policy = ManagementPolicy::Manage;
                spec.credentials_secret_ref = None;
            },
        ),
    ];
    for (why, spoil) in wrong {
        let mut bucket = fixture.observed();
        spoil(&mut bucket.spec);
        let refusal = cluster.client().create(&bucket).await.unwrap_err();
        assert!(refusal.to_string().contains(why), "{refusal}");
    }
}

#[sendo_test::test]
async fn a_bucket_that_was_created_for_a_resource_stays_its_bucket(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    let made = fixture.healthy(&fixture.managed(Default::default())).await;
    for change in [
        json!({"bucket": "another"}),
        json!({"endpoint": "http://elsewhere"}),
    ] {
        let change = Patch::Merge(json!({ "spec": change }));
        let refusal = cluster.client().patch(&made, change).await.unwrap_err();
        let why = "spec.bucket: Invalid value: endpoint and bucket cannot be changed: the bucket was created for this resource, and would be left behind";
        assert!(refusal.to_string().contains(why), "{refusal}");
    }
    // The other fields can be changed.
    cluster
        .patch(&made, json!({"spec": {"paused": true}}))
        .await;
}
