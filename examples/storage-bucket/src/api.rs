//! The `StorageBucket` resource, field by field as its users see it.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the bucket is, and how to check it.
// `kubectl explain` and the CRD show the comments below, so they speak to the
// users of the resource; comments to readers of the code have two slashes.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "storage.example.dev",
    version = "v1alpha1",
    kind = "StorageBucket",
    namespaced,
    status = "StorageBucketStatus",
    derive = "PartialEq",
    doc = "A bucket of an S3-compatible object store outside the cluster, whose health is checked at a steady interval.",
    printcolumn = r#"{"name": "Healthy", "type": "boolean", "jsonPath": ".status.healthy"}"#,
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

    /// Name of the bucket in the object store.
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

    /// Seconds from one check to the next. A change of this resource is checked at once.
    #[serde(default = "default_check_every_seconds")]
    #[schemars(range(min = 5, max = 86400))]
    pub check_every_seconds: i64,
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

    /// The `metadata.generation` that the last check was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Ready` is true while the bucket is healthy; its reason says why it is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl StorageBucketSpec {
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
