//! What holds of applies whatever is applied.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::tests::{Kind, widget};
use super::*;

/// A kind with every way in which values merge.
fn kind() -> Kind {
    widget(json!({
        "a": {"type": "string"},
        "b": {"type": "integer"},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "o": {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "atomic": {"type": "array", "items": {"type": "string"}},
        "items": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {
                "k": {"type": "string"}, "v": {"type": "string"}, "w": {"type": "string"},
            }},
        },
    }))
}

/// A `spec` of some of the names: managers with other names have nothing in common.
fn spec(names: [&'static str; 3], scalars: bool) -> impl Strategy<Value = Value> {
    let text = || prop::sample::select(vec!["1", "2"]);
    let name = move || prop::sample::select(names.to_vec());
    let scalar = prop::option::of(text());
    let map = prop::option::of(prop::collection::btree_map(name(), text(), 1..3));
    let set = prop::option::of(prop::collection::btree_set(name(), 1..3));
    let item = (prop::option::of(text()), prop::option::of(text()));
    let items = prop::option::of(prop::collection::btree_map(name(), item, 1..3));
    let parts = (
        scalar.clone(),
        prop::option::of(0..3),
        scalar,
        map,
        set,
        items,
    );
    parts.prop_map(move |(a, b, x, map, set, items)| {
        let mut spec = Map::new();
        if scalars {
            spec.extend(a.map(|a| ("a".to_owned(), json!(a))));
            spec.extend(b.map(|b| ("b".to_owned(), json!(b))));
            spec.extend(x.map(|x| ("o".to_owned(), json!({"x": x}))));
            spec.extend(a.map(|a| ("atomic".to_owned(), json!([a, "3"]))));
        }
        spec.extend(map.map(|map| ("m".to_owned(), json!(map))));
        spec.extend(set.map(|set| ("set".to_owned(), json!(set))));
        let items = items.map(|items| {
            let item = |(k, (v, w)): (&str, (Option<&str>, Option<&str>))| {
                let mut item = Map::from_iter([("k".to_owned(), json!(k))]);
                item.extend(v.map(|v| ("v".to_owned(), json!(v))));
                item.extend(w.map(|w| ("w".to_owned(), json!(w))));
                Value::Object(item)
            };
            Value::Array(items.into_iter().map(item).collect())
        });
        spec.extend(items.map(|items| ("items".to_owned(), items)));
        Value::Object(spec)
    })
}

const ALL: [&str; 3] = ["p", "q", "r"];
const ONES: [&str; 3] = ["p", "q", "r"];
const OTHERS: [&str; 3] = ["s", "t", "u"];

fn forced(live: &Value, spec: &Value, manager: &str) -> Value {
    let applied = kind().apply(live, json!({"spec": spec}), manager, true);
    applied.expect("a forced apply of a valid configuration succeeds")
}

/// The content of an object, lists in one order.
fn content(object: &Value) -> Value {
    let mut spec = object.get("spec").cloned().unwrap_or_default();
    for name in ["set", "items"] {
        if let Some(list) = spec.get_mut(name).and_then(Value::as_array_mut) {
            list.sort_by_key(Value::to_string);
        }
    }
    spec
}

/// What lies at a path of an object.
fn find<'v>(object: &'v Value, path: &FieldPath) -> Option<&'v Value> {
    path.0
        .iter()
        .try_fold(object, |value, element| match element {
            PathElement::Field(name) => value.get(name),
            PathElement::Value(wanted) => value.as_array()?.iter().find(|item| *item == wanted),
            PathElement::Key(keys) => value.as_array()?.iter().find(|item| {
                keys.iter()
                    .all(|(key, wanted)| item.get(key) == Some(wanted))
            }),
            PathElement::Index(at) => value.get(usize::try_from(*at).ok()?),
        })
}

fn absent_fields(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let mut absent = Vec::new();
    for entry in entries.into_iter().flatten() {
        let fields = FieldSet::from_json(&entry["fieldsV1"]).expect("written by this crate");
        let paths = fields.paths().into_iter();
        let gone = paths.filter(|path| find(object, path).is_none());
        absent.extend(gone.map(|path| format!("{} {path}", entry["manager"])));
    }
    absent
}

/// A type that values merge by.
#[derive(Clone, Debug)]
enum Form {
    Text,
    Set,
    Piece(Box<Form>),
    Map(Box<Form>),
    Object(Vec<Form>),
    Keyed(Vec<Form>),
}

const MEMBERS: [&str; 3] = ["x", "y", "z"];

fn forms() -> impl Strategy<Value = Form> {
    let leaf = prop_oneof![Just(Form::Text), Just(Form::Set)];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let several = prop::collection::vec(inner.clone(), 1..=MEMBERS.len());
        prop_oneof![
            inner.clone().prop_map(|form| Form::Piece(form.into())),
            inner.prop_map(|form| Form::Map(form.into())),
            several.clone().prop_map(Form::Object),
            several.prop_map(Form::Keyed),
        ]
    })
}

impl Form {
    fn schema(&self) -> Value {
        let properties = |members: &[Form]| -> Map<String, Value> {
            let members = MEMBERS.iter().zip(members);
            members
                .map(|(name, form)| ((*name).to_owned(), form.schema()))
                .collect()
        };
        match self {
            Form::Text => json!({"type": "string"}),
            Form::Set => {
                json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}})
            }
            Form::Piece(form) => json!({"type": "array", "items": form.schema()}),
            Form::Map(form) => json!({"type": "object", "additionalProperties": form.schema()}),
            Form::Object(members) => json!({"type": "object", "properties": properties(members)}),
            Form::Keyed(members) => {
                let mut properties = properties(members);
                properties.insert("k".to_owned(), json!({"type": "string"}));
                json!({
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "properties": properties},
                })
            }
        }
    }

    fn value(&self) -> BoxedStrategy<Value> {
        let word = || prop::sample::select(vec!["1", "2", "3"]);
        let members = |members: &[Form]| -> BoxedStrategy<Value> {
            // What holds nothing is no more than its absence where something was pruned.
            let members: Vec<_> = members
                .iter()
                .enumerate()
                .map(|(i, form)| match i {
                    0 => form.value().prop_map(Some).boxed(),
                    _ => prop::option::of(form.value()).boxed(),
                })
                .collect();
            let named = |values: Vec<Option<Value>>| -> Value {
                let named = MEMBERS.iter().zip(values);
                let present = named.filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
                present.collect::<Map<String, Value>>().into()
            };
            members.prop_map(named).boxed()
        };
        match self {
            Form::Text => word().prop_map(Value::from).boxed(),
            Form::Set => prop::collection::btree_set(word(), 1..3)
                .prop_map(|items| json!(items))
                .boxed(),
            Form::Piece(form) => prop::collection::vec(form.value(), 1..3)
                .prop_map(Value::from)
                .boxed(),
            Form::Map(form) => prop::collection::btree_map(word(), form.value(), 1..3)
                .prop_map(|entries| json!(entries))
                .boxed(),
            Form::Object(forms) => members(forms),
            Form::Keyed(forms) => prop::collection::btree_map(word(), members(forms), 1..3)
                .prop_map(|items| {
                    let keyed = |(key, mut item): (&str, Value)| {
                        item["k"] = key.into();
                        item
                    };
                    items.into_iter().map(keyed).collect::<Vec<_>>().into()
                })
                .boxed(),
        }
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

/// A type with four values of it.
fn typed_values() -> impl Strategy<Value = (Form, [Value; 4])> {
    forms().prop_flat_map(|form| {
        let value = form.value();
        let values = [value.clone(), value.clone(), value.clone(), value];
        (Just(form), values)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn applies_of_any_type_repeat_and_own_what_is_there((form, [live, one, other, changed]) in typed_values()) {
        let kind = widget(json!({"f": form.schema()}));
        let apply = |live: &Value, config: &Value, manager: &str| {
            kind.apply(live, json!({"spec": {"f": config}}), manager, true).unwrap()
        };
        let live = kind.created(json!({"spec": {"f": live}}), "creator");
        let mut object = live;
        for (config, manager) in [(&one, "a"), (&other, "b"), (&changed, "a")] {
            object = apply(&object, config, manager);
            // A list that lost all its items is null, which no schema here takes.
            prop_assume!(!has_null(&object["spec"]));
            prop_assert_eq!(absent_fields(&object), Vec::<String>::new());
            let again = apply(&object, config, manager);
            prop_assert_eq!(&again, &object);
        }
        let updated = kind.updated(&object, |object| object["spec"]["f"] = one.clone(), "c");
        prop_assert_eq!(absent_fields(&updated), Vec::<String>::new());
    }

    #[test]
    fn an_apply_done_twice_changes_nothing(live in spec(ALL, true), config in spec(ALL, true)) {
        let live = kind().created(json!({"spec": live}), "creator");
        let once = forced(&live, &config, "a");
        prop_assert_eq!(&forced(&once, &config, "a"), &once);
    }

    #[test]
    fn managers_with_nothing_in_common_may_apply_in_any_order(
        live in spec(ALL, true), one in spec(ONES, true), other in spec(OTHERS, false),
    ) {
        let live = kind().created(json!({"spec": live}), "creator");
        let forth = forced(&forced(&live, &one, "a"), &other, "b");
        let back = forced(&forced(&live, &other, "b"), &one, "a");
        prop_assert_eq!(content(&forth), content(&back));
    }

    #[test]
    fn what_no_manager_has_stays(
        unowned in spec(OTHERS, false), first in spec(ONES, true), second in spec(ONES, true),
    ) {
        // As admission leaves it: in the object, and nobody's.
        let mut live = kind().created(json!({"spec": {"a": "1"}}), "creator");
        live["spec"].as_object_mut().unwrap().extend(unowned.as_object().unwrap().clone());
        // A list or map that a manager stops applying altogether goes as a whole.
        let mut second = second;
        for (name, one) in [("m", json!({"z": "1"})), ("set", json!(["z"])), ("items", json!([{"k": "z"}]))] {
            if first.get(name).is_some() && second.get(name).is_none() {
                second[name] = one;
            }
        }
        let applied = forced(&forced(&live, &first, "a"), &second, "a");
        for (name, value) in unowned.as_object().unwrap() {
            let now = &applied["spec"][name];
            match value {
                Value::Object(members) => {
                    for (key, value) in members {
                        prop_assert_eq!(&now[key], value);
                    }
                }
                items => {
                    for item in items.as_array().unwrap() {
                        prop_assert!(now.as_array().unwrap().contains(item), "{} of {}", item, now);
                    }
                }
            }
        }
    }

    #[test]
    fn nobody_owns_what_is_not_there(
        live in spec(ALL, true), one in spec(ALL, true), other in spec(ALL, true), updated in spec(ALL, true),
    ) {
        let live = kind().created(json!({"spec": live}), "creator");
        let applied = forced(&forced(&live, &one, "a"), &other, "b");
        prop_assert_eq!(absent_fields(&applied), Vec::<String>::new());
        let changed = kind().updated(&applied, |object| object["spec"] = updated.clone(), "c");
        prop_assert_eq!(absent_fields(&changed), Vec::<String>::new());
        let less = forced(&changed, &json!({}), "a");
        prop_assert_eq!(absent_fields(&less), Vec::<String>::new());
    }

    #[test]
    fn nonsense_in_the_list_of_managers_is_no_panic(text in ".{0,40}", name in "[fkvi]:.{0,20}") {
        let entry = json!({
            "manager": text, "operation": "Apply", "apiVersion": text, "fieldsType": "FieldsV1",
            "fieldsV1": {&name: {&name: {}}, &text: text},
        });
        let mut live = kind().created(json!({"spec": {"a": "1"}}), "creator");
        live["metadata"]["managedFields"] = json!([entry]);
        let _ = kind().apply(&live, json!({"spec": {"a": "2"}}), "a", true);
        kind().updated(&live, |object| object["spec"]["a"] = "3".into(), "b");
    }
}
