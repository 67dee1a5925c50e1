//! The sample manifests are what the type allows.

use serde_json::Value;
use storage_bucket::api::StorageBucket;

#[test]
fn every_sample_has_a_storage_bucket() {
    for sample in [
        include_str!("../../samples/bucket.yaml"),
        include_str!("../../samples/public-bucket.yaml"),
        include_str!("../../samples/managed-bucket.yaml"),
    ] {
        let documents: Vec<Value> = serde_saphyr::from_multiple(sample).unwrap();
        let is_bucket = |object: &&Value| object["kind"] == "StorageBucket";
        let bucket = documents.iter().find(is_bucket).unwrap();
        let decoded: StorageBucket = serde_json::from_value(bucket.clone()).unwrap();

        // Nothing that the sample says is lost on the way: no field is misspelt.
        let again = serde_json::to_value(decoded).unwrap();
        for (field, value) in bucket["spec"].as_object().unwrap() {
            assert_eq!(again["spec"][field], *value, "spec.{field}");
        }
    }
}
