//! Applies whose answer is known without a request.

use serde_json::json;

use super::same::{changes_nothing, is_clear_beside};
use super::*;

/// A Deployment's fields, as an API server books them.
fn paths() -> Value {
    json!({
        "f:metadata": {"f:labels": {"f:app": {}}, "f:ownerReferences": {"k:{\"uid\":\"o\"}": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:template": {"f:spec": {
                "f:containers": {"k:{\"name\":\"c\"}": {
                    ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                }},
                "f:emptyDir": {},
            }},
        },
        "f:finalizers": {"v:\"a\"": {}, "v:\"b\"": {}},
    })
}

fn wanted() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "n", "labels": {"app": "x"},
                     "ownerReferences": [{"uid": "o", "name": "o"}]},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"spec": {
                "containers": [{"name": "c", "image": "i", "args": ["1"], "ports": [{"containerPort": 80}]}],
                "emptyDir": {},
            }},
        },
        "finalizers": ["a", "b"],
    })
}

/// What the server makes of it: defaults, and what others have set.
fn live() -> Value {
    let mut live = wanted();
    live["metadata"]["labels"]["theirs"] = json!("y");
    live["metadata"]["uid"] = json!("u");
    live["spec"]["strategy"] = json!({"type": "RollingUpdate"});
    let containers = &mut live["spec"]["template"]["spec"]["containers"];
    containers[0]["ports"][0]["protocol"] = json!("TCP");
    containers[0]["imagePullPolicy"] = json!("Always");
    *containers = json!([{"name": "injected"}, containers[0]]);
    live["finalizers"] = json!(["a", "z", "b"]);
    live
}

#[test]
fn what_is_owned_and_there_needs_no_apply() {
    assert!(changes_nothing(&paths(), &wanted(), &live()));
}

/// Puts a value at a JSON pointer, or takes it away.
fn with(mut object: Value, at: &str, value: Value) -> Value {
    let (parent, name) = at.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    match (parent, value) {
        (Value::Object(members), Value::Null) => drop(members.remove(name)),
        (Value::Object(members), value) => drop(members.insert(name.to_owned(), value)),
        (Value::Array(list), value) => list[name.parse::<usize>().unwrap()] = value,
        _ => panic!("nothing at {at}"),
    }
    object
}

#[test]
fn whatever_is_said_otherwise_needs_one() {
    const CONTAINER: &str = "/spec/template/spec/containers/0";
    for (at, value) in [
        // Another value, of a field or of one that is owned whole.
        ("/spec/replicas".to_owned(), json!(4)),
        ("/metadata/labels/app".to_owned(), json!("y")),
        ("/spec/selector/matchLabels".to_owned(), json!({})),
        (format!("{CONTAINER}/args"), json!(["1", "2"])),
        ("/metadata/ownerReferences/0/name".to_owned(), json!("p")),
        (
            "/spec/template/spec/emptyDir/medium".to_owned(),
            json!("Memory"),
        ),
        // Said no more.
        ("/spec/replicas".to_owned(), Value::Null),
        (format!("{CONTAINER}/image"), Value::Null),
        ("/metadata/labels".to_owned(), Value::Null),
        ("/finalizers".to_owned(), json!(["a"])),
        // Said now, even though it is there already: who says it owns it.
        ("/metadata/labels/theirs".to_owned(), json!("y")),
        (format!("{CONTAINER}/imagePullPolicy"), json!("Always")),
        (format!("{CONTAINER}/ports/0/protocol"), json!("TCP")),
        ("/finalizers".to_owned(), json!(["a", "b", "z"])),
        // Another element, another order, the same twice.
        (format!("{CONTAINER}/name"), json!("d")),
        (format!("{CONTAINER}/ports/0/containerPort"), json!(81)),
        ("/finalizers".to_owned(), json!(["b", "a"])),
        ("/finalizers".to_owned(), json!(["a", "a"])),
    ] {
        let wanted = with(wanted(), &at, value.clone());
        assert!(!changes_nothing(&paths(), &wanted, &live()), "{at} {value}");
    }
}

#[test]
fn what_somebody_has_changed_or_taken_away_needs_one() {
    for (at, value) in [
        ("/spec/replicas", json!(4)),
        ("/spec/selector/matchLabels/b", json!("c")),
        ("/spec/template/spec/containers/1/image", json!("j")),
        ("/spec/template/spec/containers/1/ports", json!([])),
        ("/metadata/labels/app", Value::Null),
        ("/finalizers", json!(["b", "a"])),
    ] {
        let live = with(live(), at, value.clone());
        assert!(!changes_nothing(&paths(), &wanted(), &live), "{at} {value}");
    }
}

#[test]
fn an_element_that_may_be_either_of_two_leaves_a_doubt() {
    let port = |protocol: &str| format!("k:{{\"port\":1,\"protocol\":\"{protocol}\"}}");
    let paths = json!({"f:ports": {
        port("TCP"): {".": {}, "f:port": {}}, port("UDP"): {".": {}, "f:port": {}}}});
    let object = json!({"ports": [{"port": 1}, {"port": 1}]});
    assert!(!changes_nothing(&paths, &object, &object));
    // Where the key was said, an element that leaves it out is another.
    let paths = json!({"f:ports": {port("UDP"): {".": {}, "f:port": {}, "f:protocol": {}}}});
    let live = json!({"ports": [{"port": 1, "protocol": "UDP"}]});
    assert!(changes_nothing(&paths, &live, &live));
    let left_out = json!({"ports": [{"port": 1}]});
    assert!(!changes_nothing(&paths, &left_out, &live));
}

#[test]
fn what_was_empty_and_has_parts_of_others_leaves_a_doubt() {
    let own = json!({"f:data": {}, "f:spec": {"f:selector": {}}});
    let selector = json!({"f:spec": {".": {}, "f:selector": {}, "f:replicas": {}}});
    assert!(is_clear_beside(&own, &selector));
    assert!(is_clear_beside(&own, &json!({"f:data": {".": {}}})));
    assert!(!is_clear_beside(
        &own,
        &json!({"f:data": {".": {}, "f:a": {}}})
    ));
}

const KEY: &str = "n/d";

/// An object with one field, tracked under a manager.
fn object(manager: &str, version: u64, replicas: u64) -> (Vec<u8>, ObjectMeta, Value) {
    let entry = json!({"manager": manager, "operation": "Apply", "apiVersion": "apps/v1",
                       "fieldsV1": {"f:spec": {"f:replicas": {}}}});
    let json = json!({"metadata": {"namespace": "n", "name": "d", "uid": "u",
                      "resourceVersion": version.to_string(), "managedFields": [entry]},
                      "spec": {"replicas": replicas}});
    let metadata = serde_json::from_value(json["metadata"].clone()).unwrap();
    (json.to_string().into_bytes(), metadata, json)
}

fn applied() -> Applied {
    let managers = Managers::default();
    managers.add("me");
    Applied::new(Arc::new(managers))
}

fn asks(applied: &Applied, version: u64, wanted: &Value, live: &Value) -> bool {
    let wanted = Wanted {
        manager: "me",
        api_version: "apps/v1",
        object: wanted,
    };
    let live = || Some(live.clone());
    applied.changes_nothing(&KEY.into(), ("u", version), &wanted, live)
}

#[test]
fn only_the_state_that_was_noted_is_known() {
    let applied = applied();
    let (json, metadata, live) = object("me", 3, 1);
    let wanted = json!({"spec": {"replicas": 1}});
    assert!(!asks(&applied, 3, &wanted, &live), "nothing is known yet");
    applied.note(&json, &metadata);
    assert!(asks(&applied, 3, &wanted, &live));
    assert!(!asks(&applied, 4, &wanted, &live), "another state");
    let (json, metadata, _) = object("me", 2, 1);
    applied.note(&json, &metadata);
    assert!(asks(&applied, 3, &wanted, &live), "an older one comes late");
    let (json, metadata, _) = object("another", 4, 1);
    applied.note(&json, &metadata);
    assert!(
        !asks(&applied, 4, &wanted, &live),
        "it is somebody else's now"
    );
    assert!(applied.lock().objects.is_empty() && applied.lock().texts.is_empty());
}

#[test]
fn the_very_same_is_not_sent_again_whatever_the_server_made_of_it() {
    let applied = applied();
    let (json, metadata, live) = object("me", 3, 1);
    applied.note(&json, &metadata);
    let object = json!({"spec": {"replicas": "1"}});
    assert!(!asks(&applied, 3, &object, &live));
    let wanted = Wanted {
        manager: "me",
        api_version: "apps/v1",
        object: &object,
    };
    applied.sent(&KEY.into(), 3, &wanted);
    assert!(asks(&applied, 3, &object, &live));
    applied.note(&json, &metadata);
    assert!(asks(&applied, 3, &object, &live), "the watch shows it");
    let (json, metadata, live) = self::object("me", 4, 2);
    applied.note(&json, &metadata);
    assert!(!asks(&applied, 4, &object, &live), "it has changed");
}

#[test]
fn objects_of_one_template_share_what_is_kept_and_let_go_of_it() {
    let applied = applied();
    for name in ["a", "b"] {
        let (json, mut metadata, _) = object("me", 3, 1);
        metadata.name = Some(name.to_owned());
        applied.note(&json, &metadata);
    }
    assert_eq!(
        applied.lock().texts.len(),
        2,
        "the fields and their version"
    );
    applied.forget(&"n/a".into());
    assert_eq!(applied.lock().texts.len(), 2);
    applied.retain(|_| false);
    assert!(applied.lock().objects.is_empty() && applied.lock().texts.is_empty());
}
