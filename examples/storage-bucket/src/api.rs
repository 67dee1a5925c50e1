//! The `StorageBucket` resource, field by field as its users see it.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the bucket is, and how to check it.
// `kubectl explain` and the CRD show the comments below, so they speak to the
// users of the resource; comments to readers of the code have two slashes.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.managementPolicy != 'Manage' || has(self.credentialsSecretRef)",
    "message": "a bucket is managed with credentials only: set credentialsSecretRef, or managementPolicy to Observe",
}]))]
#[kube(
    group = "storage.example.dev",
    version = "v1alpha1",
    kind = "StorageBucket",
    namespaced,
    status = "StorageBucketStatus",
    derive = "PartialEq",
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.creation) || (self.spec.endpoint == oldSelf.spec.endpoint && self.spec.bucket == oldSelf.spec.bucket)"
    ).message("endpoint and bucket cannot be changed: the bucket was created for this resource, and would be left behind").field_path(".spec.bucket"),
    doc = "A bucket of an S3-compatible object store outside the cluster, whose health is checked at a steady interval.",
    printcolumn = r#"{"name": "Healthy", "type": "boolean", "jsonPath": ".status.healthy"}"#,
    printcolumn = r#"{"name": "Synced", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Synced\")].status"}"#,
    printcolumn = r#"{"name": "Endpoint", "type": "string", "jsonPath": ".spec.endpoint"}"#,
    printcolumn = r#"{"name": "Last check", "type": "date", "jsonPath": ".status.lastCheckTime"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub struct StorageBucketSpec {
    /// URL of the object store, such as `https://s3.eu-central-1.amazonaws.com`.
    /// The bucket's name is not part of it: it is asked for as the first part of the path.
    #[schemars(
        length(max = 2048),
        regex(
            pattern = r"^https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[^?#\s]*)?$"
        )
    )]
    pub endpoint: String,

    /// Name of the bucket in the object store. It cannot be changed, nor can the
    /// endpoint, once a bucket was created for this resource.
    #[schemars(
        length(min = 3, max = 63),
        regex(pattern = r"^[a-z0-9][a-z0-9.-]*[a-z0-9]$")
    )]
    pub bucket: String,

    /// Region to sign requests for. Stores that know no regions take any.
    #[serde(default = "default_region")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_-]+$"))]
    pub region: String,

    /// Secret with the credentials to sign requests with.
    /// Without one, requests are not signed, and only a public bucket is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretReference>,

    /// Seconds from one check to the next. A change of this resource is checked
    /// at once, and so is one of its annotation `storage.example.dev/check`.
    /// After failures in a row the time grows, up to four times as long.
    #[serde(default = "default_check_every_seconds")]
    #[schemars(range(min = 5, max = 86400))]
    pub check_every_seconds: i64,

    /// What a check tries. `Reachable`: the store answers, whatever it says.
    /// `List`: the bucket can be listed. `ReadWrite`: an object can be written,
    /// read and deleted.
    #[serde(default)]
    pub probe: Probe,

    /// Whether checks, creation and everything else but deletion rest.
    #[serde(default)]
    pub paused: bool,

    /// `Observe`: the bucket is looked at and never changed. `Manage`: it is
    /// created if it is not there, and created again if it vanishes.
    #[serde(default)]
    pub management_policy: ManagementPolicy,

    /// What becomes of a bucket that was created for this resource when the
    /// resource is deleted. `Retain`: it stays. `Delete`: it is deleted, once it
    /// is empty. A bucket that was there before always stays.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

/// What a check tries.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Probe {
    /// The store answers, whatever it says.
    Reachable,
    /// The bucket can be listed.
    #[default]
    List,
    /// An object can be written, read and deleted.
    ReadWrite,
}

/// Whether a bucket is only looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ManagementPolicy {
    /// It is never changed.
    #[default]
    Observe,
    /// It is created whenever it is not there.
    Manage,
}

/// What becomes of a bucket when its resource is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It stays.
    #[default]
    Retain,
    /// It is deleted if it was created for the resource, once it is empty.
    Delete,
}

/// How far the creation of a bucket has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Creation {
    /// The store is about to be asked, or was and has not answered: the bucket
    /// may be there, and if it is, it was created for this resource.
    Pending,
    /// The bucket was created for this resource.
    Succeeded,
}

/// Names a Secret in the namespace of the StorageBucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Name of the Secret. It has the keys `accessKeyID` and `secretAccessKey`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What the checks of the bucket have found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageBucketStatus {
    /// Whether the last check found the bucket in order. Absent before the first check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,

    /// What the last check found, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// When the last check began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check_time: Option<Time>,

    /// When the bucket was last found to have turned healthy or unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,

    /// Milliseconds from the beginning of the last check to the store's answer.
    /// Absent if the check failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<i64>,

    /// How many checks have failed since the last one that succeeded.
    #[serde(default)]
    pub consecutive_failures: i64,

    /// Whether the bucket was created for this resource. Written before the
    /// store is asked, so that a crash in between is noticed. Absent for a
    /// bucket that was there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation: Option<Creation>,

    /// The value of the annotation `storage.example.dev/check` that the last
    /// check was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled_request: Option<String>,

    /// The `metadata.generation` that the last check was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Ready` is true while the bucket is healthy; its reason says why it is
    /// not. `Synced` is true while the store has what this resource asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The annotation whose every new value asks for a check at once.
pub const CHECK_ANNOTATION: &str = "storage.example.dev/check";

impl StorageBucketSpec {
    /// What a check tries: whoever manages a bucket must know whether it is there.
    pub fn effective_probe(&self) -> Probe {
        match self.management_policy {
            ManagementPolicy::Observe => self.probe,
            ManagementPolicy::Manage => self.probe.max(Probe::List),
        }
    }

    /// The time from one check to the next.
    pub fn check_every(&self) -> Duration {
        Duration::from_secs(self.check_every_seconds.max(1).unsigned_abs())
    }
}

fn default_region() -> String {
    "us-east-1".to_owned()
}

fn default_check_every_seconds() -> i64 {
    60
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::CustomResourceExt;
    use regex::Regex;
    use serde_json::{Value, json};

    /// The schema of `spec` or `status`, as the API server is given it.
    fn schema(part: &str) -> Value {
        let crd = serde_json::to_value(StorageBucket::crd()).unwrap();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part].clone()
    }

    fn allows(field: &str, value: &str) -> bool {
        let schema = &schema("spec")["properties"][field];
        let fits = |bound: &str, default: u64| schema[bound].as_u64().unwrap_or(default);
        let length = value.len() as u64;
        let pattern = Regex::new(schema["pattern"].as_str().unwrap()).unwrap();
        pattern.is_match(value)
            && (fits("minLength", 0)..=fits("maxLength", u64::MAX)).contains(&length)
    }

    #[test]
    fn endpoints_are_http_urls_without_user_query_or_fragment() {
        for good in [
            "https://s3.eu-central-1.amazonaws.com",
            "http://127.0.0.1:9000",
            "http://[::1]:9000/",
            "https://gateway.example.com/s3",
        ] {
            assert!(allows("endpoint", good), "{good}");
        }
        for bad in [
            "",
            "s3.example.com",
            "ftp://s3.example.com",
            "https://",
            "https://user:password@s3.example.com",
            "https://s3.example.com?x=1",
            "https://s3.example.com/#a",
            "https://s3.example.com/a b",
        ] {
            assert!(!allows("endpoint", bad), "{bad}");
        }
    }

    #[test]
    fn bucket_names_are_those_of_s3() {
        for good in ["abc", "logs.2026", &"a".repeat(63)] {
            assert!(allows("bucket", good), "{good}");
        }
        for bad in ["ab", "Logs", "-logs", "logs-", "a/b", "..", &"a".repeat(64)] {
            assert!(!allows("bucket", bad), "{bad}");
        }
    }

    #[test]
    fn what_is_left_out_has_defaults() {
        let schema = schema("spec");
        assert_eq!(schema["required"], json!(["bucket", "endpoint"]));
        assert_eq!(schema["properties"]["region"]["default"], "us-east-1");
        let check_every = &schema["properties"]["checkEverySeconds"];
        assert_eq!(
            (&check_every["default"], &check_every["minimum"]),
            (&json!(60), &json!(5.0))
        );

        let spec = json!({"endpoint": "http://localhost", "bucket": "logs"});
        let spec: StorageBucketSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(spec.check_every(), Duration::from_secs(60));
        assert_eq!(spec.region, "us-east-1");
    }

    #[test]
    fn every_field_is_described() {
        for part in ["spec", "status"] {
            let schema = schema(part);
            for (name, field) in schema["properties"].as_object().unwrap() {
                assert!(field["description"].is_string(), "{part}.{name}");
            }
        }
    }

    #[test]
    fn numbers_have_formats_kubernetes_knows() {
        for (part, field) in [
            ("spec", "checkEverySeconds"),
            ("status", "latencyMs"),
            ("status", "consecutiveFailures"),
            ("status", "observedGeneration"),
        ] {
            assert_eq!(schema(part)["properties"][field]["format"], "int64");
        }
    }
}
