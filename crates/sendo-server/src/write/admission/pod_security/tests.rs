//! PodSecurity as a step: exemptions and updates that do not matter.

use serde_json::json;

use super::*;

#[test]
fn an_update_matters_if_it_brings_another_image_or_container() {
    let pod = |spec: Value| json!({"spec": spec});
    let old = pod(json!({
        "containers": [{"name": "a", "image": "x"}],
        "ephemeralContainers": [{"name": "e", "image": "x"}],
    }));
    let mut same = old.clone();
    same["metadata"] = json!({"labels": {"a": "b"}});
    same["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    assert!(!is_significant(&same, &old));
    for (pointer, value) in [
        ("/spec/containers/0/image", json!("y")),
        ("/spec/ephemeralContainers/0/image", json!("y")),
        ("/spec/ephemeralContainers/0/name", json!("f")),
        ("/spec/containers", json!([])),
    ] {
        let mut new = old.clone();
        *new.pointer_mut(pointer).unwrap() = value;
        assert!(is_significant(&new, &old), "{pointer}");
    }
}
