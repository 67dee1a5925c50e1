//! The sample manifests are what the type allows.

use bar::Bar;
use serde_json::Value;

#[test]
fn the_sample_says_nothing_that_is_lost() {
    let sample: Value = serde_saphyr::from_str(include_str!("../samples/bar.yaml")).unwrap();
    let decoded: Bar = serde_json::from_value(sample.clone()).unwrap();
    assert_eq!(
        serde_json::to_value(decoded).unwrap()["spec"],
        sample["spec"]
    );
}
