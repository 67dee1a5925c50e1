//! Tests of field management.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::*;
use crate::schema::{Schema, SchemaRef, Types};
use crate::structural::Structural;
use crate::{GroupVersion, Status};

static TYPES: LazyLock<Types> = LazyLock::new(Types::builtin);

const NOW: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-01T00:00:09Z";

/// A kind with one version.
pub(super) struct Kind {
    api_version: &'static str,
    kind: &'static str,
    /// Of a custom kind.
    schema: Option<Schema>,
}

impl Versions for Kind {
    fn schema(&self, api_version: &str) -> Option<SchemaRef<'_>> {
        if api_version != self.api_version {
            return None;
        }
        match &self.schema {
            Some(schema) => Some(TYPES.view(schema)),
            None => TYPES.kind(api_version, self.kind),
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        let known = api_version == self.api_version;
        if known {
            Ok(object.clone())
        } else {
            Err(ConvertError::MissingVersion)
        }
    }
}

fn config_map() -> Kind {
    of_core("ConfigMap")
}

/// A built-in kind of the core group.
pub(super) fn of_core(kind: &'static str) -> Kind {
    Kind {
        api_version: "v1",
        kind,
        schema: None,
    }
}

/// A custom kind whose `spec` has the given properties.
pub(super) fn widget(properties: Value) -> Kind {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    let schema = Structural::from_json(&schema).to_schema(&TYPES);
    Kind {
        api_version: "example.dev/v1",
        kind: "Widget",
        schema: Some(schema),
    }
}

impl Kind {
    pub(super) fn manager<'a>(&'a self, subresource: &'a str) -> FieldManager<'a, Kind> {
        FieldManager {
            versions: self,
            kind: GroupVersion::parse(self.api_version)
                .unwrap()
                .with_kind(self.kind),
            subresource,
            reset_fields: &|_| FieldSet::new(),
        }
    }

    pub(super) fn object(&self, content: Value) -> Value {
        let mut object =
            json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": "a"}});
        object
            .as_object_mut()
            .unwrap()
            .extend(content.as_object().unwrap().clone());
        object
    }

    /// The object after its creation by a plain write.
    pub(super) fn created(&self, content: Value, manager: &str) -> Value {
        let mut object = self.object(content);
        let managers = self.manager("").creation(&object, manager, NOW);
        self.manager("")
            .update(&Value::Null, &mut object, manager, NOW);
        let tracked = object["metadata"].get("managedFields");
        let tracked = tracked.map(Value::to_string);
        assert_eq!(
            managers, tracked,
            "a creation is tracked the same in both ways"
        );
        object["metadata"]["uid"] = "1".into();
        object
    }

    pub(super) fn updated(
        &self,
        live: &Value,
        change: impl FnOnce(&mut Value),
        manager: &str,
    ) -> Value {
        let mut object = live.clone();
        change(&mut object);
        self.manager("").update(live, &mut object, manager, LATER);
        object
    }

    pub(super) fn apply(
        &self,
        live: &Value,
        content: Value,
        manager: &str,
        force: bool,
    ) -> Result<Value, Status> {
        let config = self.object(content);
        let mut object = self
            .manager("")
            .apply(live, &config, manager, force, LATER)?;
        object["metadata"]["uid"] = "1".into();
        Ok(object)
    }

    fn applied(&self, live: &Value, content: Value, manager: &str) -> Value {
        self.apply(live, content, manager, false).unwrap()
    }
}

/// The managers of an object: name and operation, fields.
fn owners(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let owner = |entry: &Value| {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        (
            format!("{} {}", text("manager"), text("operation")),
            entry["fieldsV1"].clone(),
        )
    };
    entries.iter().map(owner).collect()
}

fn owner(name: &str, fields: Value) -> (String, Value) {
    (name.to_owned(), fields)
}

#[test]
fn a_creation_owns_what_it_sets_and_maps_it_makes() {
    let object = config_map().created(json!({"data": {"k": "1"}}), "me");
    assert_eq!(
        owners(&object),
        [owner("me Update", json!({"f:data": {".": {}, "f:k": {}}}))]
    );
    assert_eq!(object["metadata"]["managedFields"][0]["time"], NOW);
}

#[test]
fn an_object_with_nothing_to_own_has_no_managers_and_plain_writes_start_none() {
    let kind = config_map();
    let object = kind.created(json!({}), "me");
    assert_eq!(owners(&object), []);
    let object = kind.updated(&object, |o| o["data"] = json!({"k": "1"}), "me");
    assert_eq!(owners(&object), []);
}

#[test]
fn an_update_takes_what_it_changes_and_forgets_what_it_removes() {
    let kind = config_map();
    let object = kind.created(json!({"data": {"a": "1", "b": "1", "c": "1"}}), "one");
    let object = kind.updated(
        &object,
        |o| o["data"] = json!({"a": "2", "b": "1", "d": "1"}),
        "two",
    );
    assert_eq!(
        owners(&object),
        [
            owner("one Update", json!({"f:data": {".": {}, "f:b": {}}})),
            owner("two Update", json!({"f:data": {"f:a": {}, "f:d": {}}})),
        ]
    );
}

#[test]
fn an_apply_owns_fields_but_not_the_maps_around_them() {
    let object = config_map().applied(&Value::Null, json!({"data": {"k": "1"}}), "me");
    assert_eq!(
        owners(&object),
        [owner("me Apply", json!({"f:data": {"f:k": {}}}))]
    );
}

#[test]
fn a_field_of_another_manager_is_a_conflict_unless_forced() {
    let kind = config_map();
    let live = kind.applied(&Value::Null, json!({"data": {"k": "1", "l": "1"}}), "one");
    let status = kind
        .apply(&live, json!({"data": {"k": "2"}}), "two", false)
        .unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"one\": .data.k"
    );
    let cause = &status.details.as_ref().unwrap().causes[0];
    assert_eq!(
        (cause.reason.as_str(), cause.field.as_str()),
        ("FieldManagerConflict", ".data.k")
    );
    let forced = kind
        .apply(&live, json!({"data": {"k": "2"}}), "two", true)
        .unwrap();
    assert_eq!(forced["data"], json!({"k": "2", "l": "1"}));
    assert_eq!(
        owners(&forced),
        [
            owner("one Apply", json!({"f:data": {"f:l": {}}})),
            owner("two Apply", json!({"f:data": {"f:k": {}}}))
        ]
    );
}

#[test]
fn several_conflicts_are_listed_by_manager() {
    let kind = config_map();
    let live = kind.created(json!({"data": {"k": "1", "l": "1"}}), "upd");
    let status = kind
        .apply(&live, json!({"data": {"k": "2", "l": "2"}}), "me", false)
        .unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 2 conflicts: conflicts with \"upd\" using v1:\n- .data.k\n- .data.l"
    );
}

#[test]
fn an_equal_value_is_shared_and_joining_sets_no_time() {
    let kind = config_map();
    let live = kind.created(json!({"data": {"k": "1"}}), "one");
    let object = kind.applied(&live, json!({"data": {"k": "1"}}), "two");
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(
        owners(&object)[0],
        owner("two Apply", json!({"f:data": {"f:k": {}}}))
    );
    assert_eq!(entries[0].get("time"), None);
    assert_eq!(entries[1]["time"], NOW);
}

#[test]
fn what_is_applied_no_more_goes_unless_another_has_it() {
    let kind = config_map();
    let live = kind.applied(&Value::Null, json!({"data": {"a": "1", "b": "1"}}), "one");
    let live = kind.applied(&live, json!({"data": {"b": "1"}}), "two");
    let live = kind.updated(&live, |o| o["data"]["c"] = "1".into(), "three");
    let object = kind.applied(&live, json!({}), "one");
    assert_eq!(object["data"], json!({"b": "1", "c": "1"}));
    assert_eq!(
        owners(&object),
        [
            owner("two Apply", json!({"f:data": {"f:b": {}}})),
            owner("three Update", json!({"f:data": {"f:c": {}}}))
        ]
    );
}

#[test]
fn what_others_set_stays_where_a_manager_stops() {
    let kind = widget(json!({
        "o": {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}},
        "l": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string"}, "w": {"type": "string"}}, "required": ["k"]},
        },
    }));
    let all = json!({"spec": {"l": [{"k": "x", "v": "1"}], "o": {"x": "1"}}});
    let live = kind.applied(&Value::Null, all, "one");
    let live = kind.updated(
        &live,
        |o| {
            o["spec"]["l"][0]["w"] = "1".into();
            o["spec"]["o"]["y"] = "1".into();
        },
        "two",
    );
    let object = kind.applied(&live, json!({"spec": {"l": [{"k": "x"}]}}), "one");
    assert_eq!(
        object["spec"],
        json!({"l": [{"k": "x", "w": "1"}], "o": {"y": "1"}})
    );
    // Nobody else has the item itself, so it goes with all it holds. A list that
    // loses its last item is null, which validation refuses or not.
    let object = kind.applied(&object, json!({}), "one");
    assert_eq!(object["spec"], json!({"l": null, "o": {"y": "1"}}));
}

#[test]
fn fields_without_managers_are_tracked_before_the_first_apply() {
    let kind = config_map();
    let mut live = kind.object(json!({"data": {"k": "1"}}));
    live["metadata"]["uid"] = "1".into();
    let object = kind.applied(&live, json!({"data": {"l": "1"}}), "me");
    assert_eq!(
        owners(&object),
        [
            owner("me Apply", json!({"f:data": {"f:l": {}}})),
            owner(
                "before-first-apply Update",
                json!({"f:data": {".": {}, "f:k": {}}})
            ),
        ]
    );
}

#[test]
fn a_list_of_managers_in_a_write_is_believed_or_clears() {
    let kind = config_map();
    let live = kind.created(json!({"data": {"k": "1"}}), "one");
    let with_list =
        |list: Value| kind.updated(&live, |o| o["metadata"]["managedFields"] = list, "two");
    assert_eq!(owners(&with_list(json!([]))), []);
    assert_eq!(owners(&with_list(json!([{}]))), []);
    assert_eq!(owners(&with_list(Value::Null)), owners(&live));
    assert_eq!(
        owners(&with_list(json!([{"operation": "Odd"}]))),
        owners(&live)
    );
    let mut own = live["metadata"]["managedFields"].clone();
    own[0]["manager"] = "other".into();
    assert_eq!(owners(&with_list(own))[0].0, "other Update");
}

#[test]
fn the_oldest_updaters_are_joined() {
    let kind = config_map();
    let mut live = kind.created(json!({"data": {"k": "1"}}), "m00");
    for i in 1..=11 {
        let mut object = live.clone();
        object["data"][format!("k{i}")] = "1".into();
        kind.manager("").update(
            &live,
            &mut object,
            &format!("m{i:02}"),
            &format!("2026-01-01T00:00:{:02}Z", i + 1),
        );
        live = object;
    }
    let owners = owners(&live);
    assert_eq!(owners.len(), 10);
    assert_eq!(
        owners[0],
        owner(
            "ancient-changes Update",
            json!({"f:data": {".": {}, "f:k": {}, "f:k1": {}, "f:k2": {}}})
        )
    );
    assert_eq!(
        live["metadata"]["managedFields"][0]["time"],
        "2026-01-01T00:00:03Z"
    );
}

#[test]
fn fields_below_something_that_became_one_piece_are_that_piece() {
    let granular =
        widget(json!({"m": {"type": "object", "additionalProperties": {"type": "string"}}}));
    let atomic = widget(
        json!({"m": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"}}),
    );
    let live = granular.applied(&Value::Null, json!({"spec": {"m": {"a": "1"}}}), "one");
    let object = atomic.updated(
        &live,
        |o| o["metadata"]["labels"] = json!({"x": "y"}),
        "two",
    );
    assert_eq!(
        owners(&object)[0],
        owner("one Apply", json!({"f:spec": {"f:m": {}}}))
    );
}

#[test]
fn kubectl_takes_over_from_its_client_side_apply() {
    let kind = config_map();
    let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}});
    let note = json!({"kubectl.kubernetes.io/last-applied-configuration": last.to_string()});
    let live = kind.created(
        json!({"metadata": {"name": "a", "annotations": note}, "data": {"k": "1"}}),
        "kubectl-client-side-apply",
    );
    let object = kind.applied(&live, json!({"data": {"k": "2"}}), "kubectl");
    assert_eq!(object["data"]["k"], "2");
    let note =
        &object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    assert_eq!(
        note,
        "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}\n"
    );
    assert!(
        kind.apply(&live, json!({"data": {"k": "2"}}), "other", false)
            .is_err()
    );
}

#[test]
fn what_does_not_fit_the_type_is_refused() {
    let kind = widget(json!({
        "s": {"type": "string"}, "i": {"type": "integer"}, "o": {"type": "object", "properties": {"x": {"type": "string"}}},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
              "items": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]}},
    }));
    let cases = [
        (
            json!({"bogus": 1}),
            ".spec.bogus: field not declared in schema",
        ),
        (
            json!({"s": true}),
            ".spec.s: expected string, got &value.valueUnstructured{Value:true}",
        ),
        (
            json!({"i": "x"}),
            ".spec.i: expected numeric (int or float), got string",
        ),
        (json!({"o": []}), ".spec.o: expected map, got &{[]}"),
        (json!({"set": "x"}), ".spec.set: expected list, got &{x}"),
        (
            json!({"set": ["x", "x"]}),
            ".spec.set: duplicate entries for key [=\"x\"]",
        ),
        (
            json!({"set": [null]}),
            ".spec.set: element 0: associative list without keys has an element that's an explicit null",
        ),
        (
            json!({"m": ["x"]}),
            ".spec.m: element 0: associative list with keys may not have non-map elements",
        ),
        (
            json!({"m": [{}]}),
            ".spec.m: element 0: associative list with keys has an element that omits all key fields [\"k\"] (and doesn't have default values for any key fields)",
        ),
    ];
    for (spec, expected) in cases {
        let status = kind
            .apply(&Value::Null, json!({ "spec": spec }), "me", false)
            .unwrap_err();
        let expected = format!(
            "failed to create typed patch object (/a; example.dev/v1, Kind=Widget): {expected}"
        );
        assert_eq!((status.code, status.message), (500, expected));
    }
}

#[test]
fn requests_of_the_wrong_form_are_refused() {
    let kind = config_map();
    let config = json!({"kind": "ConfigMap", "metadata": {"name": "a"}});
    let status: Status = kind
        .manager("")
        .apply(&Value::Null, &config, "me", false, NOW)
        .unwrap_err()
        .into();
    assert_eq!(
        (status.code, status.message.as_str()),
        (400, "invalid object type: /, Kind=ConfigMap")
    );
    let status = kind
        .apply(
            &Value::Null,
            json!({"metadata": {"managedFields": []}}),
            "me",
            false,
        )
        .unwrap_err();
    assert_eq!(status.message, "metadata.managedFields must be nil");
}

#[test]
fn fields_that_are_reset_are_not_owned() {
    let kind = widget(json!({"a": {"type": "string"}, "b": {"type": "string"}}));
    let reset: FieldSet = [FieldPath::of_fields(["spec", "b"])].into_iter().collect();
    let reset_fields = |_: &str| reset.clone();
    let manager = FieldManager {
        reset_fields: &reset_fields,
        ..kind.manager("")
    };
    let config = kind.object(json!({"spec": {"a": "1", "b": "1"}}));
    let object = manager
        .apply(&Value::Null, &config, "me", false, NOW)
        .unwrap();
    assert_eq!(
        owners(&object),
        [owner("me Apply", json!({"f:spec": {"f:a": {}}}))]
    );
}

#[test]
fn managers_are_named_after_the_user_agent() {
    assert_eq!(manager_of_user_agent("kubectl/v1.36 (linux)"), "kubectl");
    assert_eq!(manager_of_user_agent("tab\there"), "tabhere");
    assert_eq!(manager_of_user_agent(&"x".repeat(200)).len(), 128);
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    fn kind() -> Kind {
        widget(json!({
            "a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "string"},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                  "items": {"type": "object", "required": ["k"],
                            "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}},
        }))
    }

    /// A spec with members named by some of these characters.
    fn spec(characters: &'static str) -> impl Strategy<Value = Value> {
        let characters: Vec<String> = characters.chars().map(String::from).collect();
        let some = proptest::sample::subsequence(characters.clone(), 0..=characters.len());
        let texts = proptest::collection::vec(0..3u8, 12);
        (some.clone(), some.clone(), some.clone(), some, texts).prop_map(
            |(fields, map, set, list, texts)| {
                let mut texts = texts.into_iter().cycle().map(|t| t.to_string());
                let mut spec = serde_json::Map::new();
                for name in fields {
                    spec.insert(name, texts.next().unwrap().into());
                }
                let map: serde_json::Map<_, _> = map
                    .into_iter()
                    .map(|k| (k, texts.next().unwrap().into()))
                    .collect();
                let list: Vec<Value> = list
                    .into_iter()
                    .map(|k| json!({"k": k, "v": texts.next().unwrap()}))
                    .collect();
                for (name, value) in [("m", json!(map)), ("set", json!(set)), ("l", json!(list))] {
                    let is_empty =
                        value.as_array().is_some_and(Vec::is_empty) || value == json!({});
                    if !is_empty {
                        spec.insert(name.to_owned(), value);
                    }
                }
                json!({ "spec": spec })
            },
        )
    }

    /// The spec with lists sorted: their order is another matter.
    fn sorted(object: &Value) -> Value {
        let mut spec = object["spec"].clone();
        for name in ["set", "l"] {
            if let Some(items) = spec.get_mut(name).and_then(Value::as_array_mut) {
                items.sort_by_key(Value::to_string);
            }
        }
        spec
    }

    proptest! {
        #[test]
        fn applying_twice_changes_nothing(first in spec("abc"), second in spec("abc")) {
            let kind = kind();
            let live = kind.created(first, "one");
            let once = kind.apply(&live, second.clone(), "two", true).unwrap();
            let twice = kind.apply(&once, second, "two", true).unwrap();
            prop_assert_eq!(once, twice);
        }

        #[test]
        fn managers_of_different_fields_may_come_in_any_order(one in spec("ab"), two in spec("c")) {
            let kind = kind();
            let start = kind.created(json!({"spec": {}}), "start");
            let first = kind.applied(&kind.applied(&start, one.clone(), "one"), two.clone(), "two");
            let second = kind.applied(&kind.applied(&start, two, "two"), one, "one");
            prop_assert_eq!(sorted(&first), sorted(&second));
        }

        #[test]
        fn what_nobody_applied_is_never_removed(
            start in spec("abc"),
            one in spec("abc"),
            two in spec("abc"),
        ) {
            let kind = kind();
            let schema = kind.schema("example.dev/v1").unwrap();
            let fields = |object: &Value| {
                let fields = super::super::to_set::fields_of(object, schema);
                super::super::reconcile::with_named_fields(&fields, schema)
            };
            let applied = fields(&kind.object(one.clone()));
            let live = kind.created(start, "start");
            let once = kind.apply(&live, one, "one", true).unwrap();
            let object = kind.apply(&once, two, "one", true).unwrap();
            let lost = fields(&live).difference(&applied).difference(&fields(&object));
            let lost: Vec<String> = lost.paths().iter().map(FieldPath::to_string).collect();
            prop_assert!(lost.is_empty(), "{:?}", lost);
        }

        #[test]
        fn no_manager_has_a_field_that_is_absent(start in spec("abc"), one in spec("abc"), two in spec("abc")) {
            let kind = kind();
            let live = kind.created(start, "start");
            let once = kind.apply(&live, one, "one", true).unwrap();
            let object = kind.apply(&once, two, "one", true).unwrap();
            let schema = kind.schema("example.dev/v1").unwrap();
            let present = super::super::reconcile::with_named_fields(
                &super::super::to_set::fields_of(&object, schema), schema);
            for (name, fields) in owners(&object) {
                let fields = FieldSet::from_json(&fields).unwrap();
                // A map that was made and emptied since is still its maker's.
                let absent: Vec<String> = fields.difference(&present).paths().iter()
                    .map(FieldPath::to_string).filter(|p| p.matches('.').count() > 2 || p.contains('[')).collect();
                prop_assert!(absent.is_empty(), "{} {:?}", name, absent);
            }
        }

        #[test]
        fn writes_of_any_kind_and_nonsense_managers_do_not_fail(start in spec("abc"), new in spec("abc"), name in "\\PC{0,8}") {
            let kind = kind();
            let live = kind.created(start, "start");
            let object = kind.updated(&live, |o| {
                o["spec"] = new["spec"].clone();
                o["metadata"]["managedFields"] = json!([{"operation": "Apply", "apiVersion": name, "fieldsType": "FieldsV1", "fieldsV1": {"f:x": {name.clone(): {}}}}]);
            }, "two");
            prop_assert_eq!(&object["spec"], &new["spec"]);
        }
    }
}
