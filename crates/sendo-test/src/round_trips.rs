//! Checks that a conversion between versions loses nothing, on objects that the schemas allow.

use std::fmt;

use kube::CustomResourceExt;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::string::string_regex;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use sendo::Typed;
use sendo::webhook::Convert;
use serde_json::{Map, Value, json};

/// How many objects of each version are converted.
const CASES: u32 = 256;

/// How deep generated objects go where their schema does not say.
const DEPTH: u32 = 3;

/// Converts 256 generated objects of a version to the hub and back, and as many of the hub to the
/// version and back, and checks that each comes back as it was.
///
/// The objects are generated from the schemas of the two types: what is optional is there or not,
/// lengths, ranges, patterns and enums are kept. They are the same in each run. Rules in CEL are
/// not looked at; [`round_trips_of`] leaves out what they forbid.
///
/// ```
/// # mod v1 {
/// #     use kube::CustomResource; use schemars::JsonSchema; use serde::{Deserialize, Serialize};
/// #     #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
/// #     #[kube(group = "example.dev", version = "v1", kind = "Bar", namespaced)]
/// #     pub struct BarSpec { pub deployment: String }
/// # }
/// # mod v1alpha1 {
/// #     use kube::CustomResource; use schemars::JsonSchema; use serde::{Deserialize, Serialize};
/// #     #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
/// #     #[kube(group = "example.dev", version = "v1alpha1", kind = "Bar", namespaced, storage = false)]
/// #     pub struct BarSpec { pub name: String }
/// # }
/// use sendo::{Result, webhook::Convert};
///
/// impl Convert for v1alpha1::Bar {
///     type Hub = v1::Bar;
///
///     fn to_hub(self) -> Result<v1::Bar> {
///         let spec = v1::BarSpec { deployment: self.spec.name };
///         Ok(v1::Bar { metadata: self.metadata, spec })
///     }
///
///     fn from_hub(hub: v1::Bar) -> Result<Self> {
///         let spec = v1alpha1::BarSpec { name: hub.spec.deployment };
///         Ok(v1alpha1::Bar { metadata: hub.metadata, spec })
///     }
/// }
///
/// sendo_test::round_trips::<v1alpha1::Bar>();
/// ```
///
/// # Panics
/// If an object does not come back as it was, or cannot be converted. The message names the field
/// and has the smallest such object that was found.
pub fn round_trips<K>()
where
    K: Convert + CustomResourceExt,
    K::Hub: CustomResourceExt,
{
    round_trips_of::<K>(|_| true, |_| true);
}

/// The same on those objects only that are valid: of the version, and of the hub.
///
/// # Panics
/// As [`round_trips`]; and if nearly all generated objects are left out.
pub fn round_trips_of<K>(is_valid: impl Fn(&K) -> bool, is_valid_hub: impl Fn(&K::Hub) -> bool)
where
    K: Convert + CustomResourceExt,
    K::Hub: CustomResourceExt,
{
    let there = |object: K| object.to_hub();
    let back = |object: K::Hub| K::from_hub(object);
    check::<K, K::Hub>(is_valid, there, back);
    check::<K::Hub, K>(is_valid_hub, back, there);
}

fn check<A, B>(
    is_valid: impl Fn(&A) -> bool,
    there: impl Fn(A) -> sendo::Result<B>,
    back: impl Fn(B) -> sendo::Result<A>,
) where
    A: Typed + CustomResourceExt,
    B: Typed + CustomResourceExt,
{
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let way = Way {
        from: version::<A>(),
        by: version::<B>(),
    };
    let failed = runner.run(&objects::<A>(), |object| {
        // What its type cannot read is not one of its objects, whatever the schema says.
        let Ok(object) = serde_json::from_value::<A>(object) else {
            return Err(TestCaseError::reject("the type cannot read it"));
        };
        if !is_valid(&object) {
            return Err(TestCaseError::reject("it is not valid"));
        }
        let before = json_of(&object);
        let fail = |why: String| TestCaseError::fail(why);
        let converted = there(object)
            .map_err(|error| fail(format!("cannot be converted to {}: {error}", way.by)))?;
        let after = back(converted)
            .map_err(|error| fail(format!("cannot be converted back from {}: {error}", way.by)))?;
        match difference("", &before, &json_of(&after)) {
            None => Ok(()),
            Some(difference) => Err(fail(difference)),
        }
    });
    match failed {
        Ok(()) => {}
        Err(TestError::Fail(why, object)) => {
            let object = serde_json::to_string_pretty(&object).unwrap_or_default();
            panic!("{way} does not bring an object back: {why}\n{object}");
        }
        Err(TestError::Abort(why)) => panic!(
            "{way} cannot be checked: {why}; nearly none of the generated objects can be used"
        ),
    }
}

/// `Bar v1alpha1 → v1 → v1alpha1`
struct Way {
    from: String,
    by: String,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the conversion {0} → {1} → {0}", self.from, self.by)
    }
}

fn version<K: Typed>() -> String {
    let kind = sendo::Kind::of::<K>();
    format!("{}/{}", kind.version, kind.kind)
}

fn json_of<K: Typed>(object: &K) -> Value {
    serde_json::to_value(object).expect("an object that was read can be written")
}

/// The first difference, by its path.
fn difference(path: &str, before: &Value, after: &Value) -> Option<String> {
    let missing = Value::Null;
    match (before, after) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a
                .keys()
                .chain(b.keys().filter(|name| !a.contains_key(*name)));
            names.into_iter().find_map(|name| {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                let of = |object: &Map<String, Value>| object.get(name).cloned();
                let (a, b) = (
                    of(a).unwrap_or(missing.clone()),
                    of(b).unwrap_or(missing.clone()),
                );
                difference(&path, &a, &b)
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut items = a.iter().zip(b).enumerate();
            items.find_map(|(at, (a, b))| difference(&format!("{path}[{at}]"), a, b))
        }
        (a, b) if a == b => None,
        (a, Value::Null) => Some(format!("{path} is lost, which was {a}")),
        (Value::Null, b) => Some(format!("{path} is {b}, and was not there")),
        (a, b) => Some(format!("{path} is {b}, and was {a}")),
    }
}

/// Objects of a type, by the schema of its definition.
fn objects<K: Typed + CustomResourceExt>() -> BoxedStrategy<Value> {
    let definition = K::crd();
    let version = sendo::Kind::of::<K>().version;
    let mut versions = definition.spec.versions.iter();
    let version = versions.find(|known| known.name == version);
    let schema = version.and_then(|version| version.schema.as_ref());
    let schema = schema.and_then(|schema| schema.open_api_v3_schema.as_ref());
    let schema = serde_json::to_value(schema).unwrap_or_default();
    let text = || btree_map("[a-z]{1,8}", "[a-z0-9]{0,8}", 0..3);
    let is_namespaced = K::is_namespaced();
    let api_version = K::api_resource().api_version;
    let kind = K::api_resource().kind;
    let parts = (values(&without_metadata(schema), DEPTH), text(), text());
    let object = parts.prop_map(move |(mut object, labels, annotations)| {
        let mut metadata = json!({"name": "generated"});
        if is_namespaced {
            metadata["namespace"] = json!("default");
        }
        for (name, map) in [("labels", labels), ("annotations", annotations)] {
            if !map.is_empty() {
                metadata[name] = json!(map);
            }
        }
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        object["metadata"] = metadata;
        object
    });
    object.boxed()
}

/// The schema of all but what every object has.
fn without_metadata(mut schema: Value) -> Value {
    if let Some(properties) = schema["properties"].as_object_mut() {
        for name in ["apiVersion", "kind", "metadata"] {
            properties.remove(name);
        }
    }
    schema["type"] = json!("object");
    schema
}

/// Values that a schema allows.
fn values(schema: &Value, depth: u32) -> BoxedStrategy<Value> {
    if let Some(allowed) = schema["enum"].as_array() {
        let allowed: Vec<Value> = allowed.iter().filter(|v| !v.is_null()).cloned().collect();
        return select(allowed).boxed();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        let number = (0..1000_i64).prop_map(Value::from);
        return prop_oneof![number, "[0-9]{1,3}%".prop_map(Value::from)].boxed();
    }
    match schema["type"].as_str() {
        Some("object") => object(schema, depth),
        Some("array") => array(schema, depth),
        Some("string") => string(schema),
        Some("integer") => integer(schema),
        Some("number") => number(schema),
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        _ => anything(depth),
    }
}

fn object(schema: &Value, depth: u32) -> BoxedStrategy<Value> {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut members: BoxedStrategy<Map<String, Value>> = Just(Map::new()).boxed();
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.iter().any(|known| known == name);
        let value = values(schema, depth);
        let value = match is_required {
            true => value.prop_map(Some).boxed(),
            false => proptest::option::of(value).boxed(),
        };
        let name = name.clone();
        let more = (members, value).prop_map(move |(mut members, value)| {
            if let Some(value) = value {
                members.insert(name.clone(), value);
            }
            members
        });
        members = more.boxed();
    }
    let others = &schema["additionalProperties"];
    let unknown = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let more = match (others, unknown) {
        (Value::Object(_), _) => values(others, depth.saturating_sub(1)),
        (Value::Bool(true), _) | (_, true) => anything(depth.saturating_sub(1)),
        _ => return members.prop_map(Value::from).boxed(),
    };
    let least = size(schema, "minProperties", 0);
    let more = btree_map("[a-z]{1,8}", more, least..=least.max(2));
    let all = (members, more).prop_map(|(mut members, more)| {
        for (name, value) in more {
            members.entry(name).or_insert(value);
        }
        Value::from(members)
    });
    all.boxed()
}

fn array(schema: &Value, depth: u32) -> BoxedStrategy<Value> {
    let least = size(schema, "minItems", 0);
    let most = size(schema, "maxItems", least + 3).clamp(least, least + 3);
    let items = vec(
        values(&schema["items"], depth.saturating_sub(1)),
        least..=most,
    );
    let keys = schema["x-kubernetes-list-map-keys"].clone();
    let is_set = schema["x-kubernetes-list-type"] == "set" || schema["uniqueItems"] == true;
    let key = move |item: &Value| match keys.as_array() {
        Some(keys) => keys
            .iter()
            .filter_map(|key| item.get(key.as_str()?).cloned())
            .collect(),
        None if is_set => vec![item.clone()],
        None => Vec::new(),
    };
    let unique = items.prop_map(move |items| {
        let mut kept: Vec<Value> = Vec::new();
        for item in items {
            let own = key(&item);
            if own.is_empty() || !kept.iter().any(|other| key(other) == own) {
                kept.push(item);
            }
        }
        Value::from(kept)
    });
    unique.boxed()
}

fn string(schema: &Value) -> BoxedStrategy<Value> {
    let (least, most) = (size(schema, "minLength", 0), size(schema, "maxLength", 16));
    if schema["format"] == "date-time" {
        let parts = (1..=12_u32, 1..=28_u32, 0..24_u32, 0..60_u32);
        let time = parts.prop_map(|(month, day, hour, minute)| {
            Value::from(format!(
                "2026-{month:02}-{day:02}T{hour:02}:{minute:02}:00Z"
            ))
        });
        return time.boxed();
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        // The strategy matches from end to end, and knows no anchors.
        let inner = pattern.strip_prefix('^').unwrap_or(pattern);
        let inner = inner.strip_suffix('$').unwrap_or(inner);
        if let Ok(matching) = string_regex(inner) {
            let fits = move |text: &String| (least..=most).contains(&text.chars().count());
            let matching = matching.prop_filter("its length is not allowed", fits);
            return matching.prop_map(Value::from).boxed();
        }
    }
    let text = format!("[a-zA-Z0-9 _.-]{{{least},{}}}", most.min(least + 16));
    let text = string_regex(&text).expect("it is an expression");
    text.prop_map(Value::from).boxed()
}

fn integer(schema: &Value) -> BoxedStrategy<Value> {
    let (least, most) = match schema["format"].as_str() {
        Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Some("uint32") => (0, i64::from(u32::MAX)),
        Some("uint8") => (0, 255),
        Some("uint16") => (0, 65_535),
        Some(format) if format.starts_with("uint") => (0, i64::MAX),
        Some("int8") => (-128, 127),
        Some("int16") => (-32_768, 32_767),
        _ => (i64::MIN, i64::MAX),
    };
    let bound = |name: &str| schema[name].as_f64().map(|bound| bound as i64);
    let least = bound("minimum").map_or(least, |minimum| minimum.max(least));
    let most = bound("maximum").map_or(most, |maximum| maximum.min(most));
    (least..=most.max(least)).prop_map(Value::from).boxed()
}

fn number(schema: &Value) -> BoxedStrategy<Value> {
    let least = schema["minimum"].as_f64().unwrap_or(-1000.0);
    let most = schema["maximum"]
        .as_f64()
        .unwrap_or(least.max(0.0) + 1000.0);
    // In eighths, so that nothing is lost by writing them.
    let eighths = (least * 8.0).ceil() as i64..=((most * 8.0).floor() as i64);
    eighths
        .prop_map(|number| json!(number as f64 / 8.0))
        .boxed()
}

/// Any JSON but null, which Kubernetes drops.
fn anything(depth: u32) -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,8}".prop_map(Value::from),
    ];
    let nested = leaf.prop_recursive(depth, 16, 3, |inner| {
        let list = vec(inner.clone(), 0..3).prop_map(Value::from);
        let members = btree_map("[a-z]{1,8}", inner, 0..3);
        prop_oneof![list, members.prop_map(|members| json!(members))]
    });
    nested.boxed()
}

fn size(schema: &Value, name: &str, default: usize) -> usize {
    let given = schema[name].as_u64();
    given.map_or(default, |size| usize::try_from(size).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::*;

    mod hub {
        use super::*;

        #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[kube(group = "example.dev", version = "v1", kind = "Pool", namespaced)]
        pub(super) struct PoolSpec {
            pub(super) size: i32,
            pub(super) zones: Vec<String>,
            #[schemars(length(min = 3, max = 5), regex(pattern = "^[a-c]+$"))]
            pub(super) name: String,
        }
    }

    /// A version of the kind whose conversion is written by hand in each test.
    macro_rules! version {
        ($module:ident, $to_hub:expr, $from_hub:expr) => {
            mod $module {
                use super::*;

                #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
                #[kube(
                    group = "example.dev",
                    version = "v1beta1",
                    kind = "Pool",
                    namespaced,
                    storage = false
                )]
                pub(super) struct PoolSpec {
                    pub(super) count: i32,
                    #[serde(default, skip_serializing_if = "Vec::is_empty")]
                    pub(super) zones: Vec<String>,
                    #[schemars(length(min = 3, max = 5), regex(pattern = "^[a-c]+$"))]
                    pub(super) name: String,
                }

                impl Convert for Pool {
                    type Hub = hub::Pool;

                    fn to_hub(self) -> sendo::Result<hub::Pool> {
                        let to_hub: fn(PoolSpec) -> hub::PoolSpec = $to_hub;
                        Ok(hub::Pool {
                            metadata: self.metadata,
                            spec: to_hub(self.spec),
                        })
                    }

                    fn from_hub(hub: hub::Pool) -> sendo::Result<Self> {
                        let from_hub: fn(hub::PoolSpec) -> PoolSpec = $from_hub;
                        Ok(Pool {
                            metadata: hub.metadata,
                            spec: from_hub(hub.spec),
                        })
                    }
                }
            }
        };
    }

    version!(
        faithful,
        |spec| hub::PoolSpec {
            size: spec.count,
            zones: spec.zones,
            name: spec.name
        },
        |spec| PoolSpec {
            count: spec.size,
            zones: spec.zones,
            name: spec.name
        }
    );
    version!(
        forgets_zones,
        |spec| hub::PoolSpec {
            size: spec.count,
            zones: Vec::new(),
            name: spec.name
        },
        |spec| PoolSpec {
            count: spec.size,
            zones: spec.zones,
            name: spec.name
        }
    );
    version!(
        cuts_size,
        |spec| hub::PoolSpec {
            size: spec.count.min(1000),
            zones: spec.zones,
            name: spec.name
        },
        |spec| PoolSpec {
            count: spec.size,
            zones: spec.zones,
            name: spec.name
        }
    );

    fn failure(check: fn()) -> String {
        let panic = std::panic::catch_unwind(check).unwrap_err();
        panic.downcast_ref::<String>().unwrap().clone()
    }

    #[test]
    fn a_conversion_that_keeps_everything_passes() {
        round_trips::<faithful::Pool>();
    }

    #[test]
    fn a_field_that_is_dropped_is_named_with_the_smallest_object() {
        let failure = failure(round_trips::<forgets_zones::Pool>);
        let told = "the conversion v1beta1/Pool → v1/Pool → v1beta1/Pool does not bring an object \
                    back: spec.zones is lost, which was [\"";
        assert!(failure.starts_with(told), "{failure}");
        assert!(failure.contains("\"count\": 0"), "{failure}");
    }

    #[test]
    fn a_value_that_is_cut_is_found_and_what_is_not_valid_is_left_out() {
        let failure = failure(round_trips::<cuts_size::Pool>);
        assert!(
            failure.contains("spec.count is 1000, and was 1001"),
            "{failure}"
        );
        round_trips_of::<cuts_size::Pool>(
            |pool| pool.spec.count <= 1000,
            |hub| hub.spec.size <= 1000,
        );
    }

    #[test]
    fn generated_values_keep_to_the_schema() {
        let mut runner = TestRunner::deterministic();
        let schema = json!({"type": "object", "required": ["a", "l"], "properties": {
            "a": {"type": "string", "pattern": "^[a-c]{2}$"},
            "b": {"type": "integer", "minimum": 3.0, "maximum": 5.0},
            "l": {"type": "array", "minItems": 1, "items": {
                "type": "object", "required": ["k"], "properties": {"k": {"enum": ["x", "y"]}},
            }, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        }});
        runner
            .run(&values(&schema, DEPTH), |value| {
                let text = value["a"].as_str().unwrap();
                assert!(text.len() == 2 && text.chars().all(|c| ('a'..='c').contains(&c)));
                let b = &value["b"];
                assert!(b.is_null() || (3..=5).contains(&b.as_i64().unwrap()));
                let keys: Vec<_> = value["l"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|i| &i["k"])
                    .collect();
                assert!(
                    !keys.is_empty() && (keys.len() < 2 || keys[0] != keys[1]),
                    "{keys:?}"
                );
                Ok(())
            })
            .unwrap();
    }
}
