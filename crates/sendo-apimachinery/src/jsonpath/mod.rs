//! Paths into objects, as printer columns, scale subresources and selectable
//! fields of custom resources give them: `.spec.replicas`,
//! `.status.conditions[?(@.type=="Ready")].status`.

mod parse;

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::go_text::{go_json, go_value};

/// A path that was read.
///
/// Understood are members (`.a`, `['a']`, with `\.` for a dot in a name), all
/// members or items (`.*`, `[*]`), items by index (`[0]`, `[-1]`), slices
/// (`[1:3]`, `[::2]`), several of these (`[0,2]`), and filters that compare
/// what they find with a constant or with something else found.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

/// Why a text is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PathError(String);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Member(String),
    All,
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        step: i64,
    },
    Index(i64),
    Union(Vec<Step>),
    Filter(Filter),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Operand,
    /// What the left is compared with; without one, whether the left is there.
    right: Option<(Comparison, Operand)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    /// A path from the item that is filtered.
    Path(JsonPath),
    Constant(Value),
}

impl JsonPath {
    /// Reads a path. A leading dot may be left out.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        parse::path(text)
    }

    /// The names of a path that has members only, as scale and selectable fields want it.
    pub fn members(&self) -> Option<Vec<&str>> {
        let names = self.steps.iter().map(|step| match step {
            Step::Member(name) => Some(name.as_str()),
            _ => None,
        });
        names.collect()
    }

    /// Everything the path leads to; what is absent is left out.
    pub fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        self.steps.iter().fold(vec![value], |found, step| {
            found
                .into_iter()
                .flat_map(|value| step.find(value))
                .collect()
        })
    }

    /// The first of what the path leads to.
    pub fn first<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.find(value).into_iter().next()
    }

    /// Sets the value at a path of members, making the objects on the way.
    ///
    /// Returns whether it could: not if the path has other steps, or leads
    /// through something that is no object.
    pub fn set(&self, object: &mut Value, new: Value) -> bool {
        let Some(names) = self.members() else {
            return false;
        };
        let mut place = object;
        for name in names {
            if place.is_null() {
                *place = Value::Object(Map::new());
            }
            let Value::Object(members) = place else {
                return false;
            };
            place = members.entry(name).or_insert(Value::Null);
        }
        *place = new;
        true
    }
}

/// The text of a value in a column of type `string`.
pub fn cell_text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Array(_) | Value::Object(_) => go_json(value),
        other => go_value(other),
    }
}

impl Step {
    fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match (self, value) {
            (Step::Member(name), Value::Object(members)) => members.get(name).into_iter().collect(),
            (Step::All, Value::Object(members)) => members.values().collect(),
            (Step::All, Value::Array(items)) => items.iter().collect(),
            (Step::Index(index), Value::Array(items)) => place(*index, items.len())
                .and_then(|i| items.get(i))
                .into_iter()
                .collect(),
            (Step::Slice { from, to, step }, Value::Array(items)) => {
                slice(items, *from, *to, *step)
            }
            (Step::Union(steps), value) => steps.iter().flat_map(|s| s.find(value)).collect(),
            (Step::Filter(filter), Value::Array(items)) => {
                items.iter().filter(|item| filter.holds(item)).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn place(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index + length } else { index }).ok()
}

fn slice(items: &[Value], from: Option<i64>, to: Option<i64>, step: i64) -> Vec<&Value> {
    let bound = |index: i64| place(index, items.len()).unwrap_or(0).min(items.len());
    let from = from.map_or(0, bound);
    let to = to.map_or(items.len(), bound);
    let step = usize::try_from(step).unwrap_or(1).max(1);
    items
        .get(from..to)
        .unwrap_or_default()
        .iter()
        .step_by(step)
        .collect()
}

impl Filter {
    fn holds(&self, item: &Value) -> bool {
        let left = self.left.value(item);
        let Some((comparison, right)) = &self.right else {
            return left.is_some();
        };
        let (Some(left), Some(right)) = (left, right.value(item)) else {
            return false;
        };
        let order = compare(left, right);
        match comparison {
            Comparison::Equal => order == Some(Ordering::Equal),
            Comparison::Unequal => order.is_some_and(Ordering::is_ne),
            Comparison::Less => order.is_some_and(Ordering::is_lt),
            Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
            Comparison::Greater => order.is_some_and(Ordering::is_gt),
            Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}

impl Operand {
    fn value<'a>(&'a self, item: &'a Value) -> Option<&'a Value> {
        match self {
            Operand::Path(path) => path.first(item),
            Operand::Constant(value) => Some(value),
        }
    }
}

/// The order of two values of one type; `None` where there is none.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(path: &str) -> Vec<Value> {
        let object = json!({
            "spec": {"n": 5, "l": ["x", "y", "z"], "o": {"k": 1}, "a.b/c": "dotted", "null": null},
            "status": {"conditions": [
                {"type": "Other", "status": "False", "n": 1},
                {"type": "Ready", "status": "True", "n": 2},
            ]},
        });
        JsonPath::parse(path)
            .unwrap()
            .find(&object)
            .into_iter()
            .cloned()
            .collect()
    }

    #[test]
    fn paths_find_values() {
        let cases = [
            (".spec.n", json!([5])),
            ("spec.n", json!([5])),
            ("{.spec.n}", json!([5])),
            (".spec.none", json!([])),
            (".spec.n.deeper", json!([])),
            (".spec.null", json!([null])),
            (".spec.o", json!([{"k": 1}])),
            (".spec.l[0]", json!(["x"])),
            (".spec.l[-1]", json!(["z"])),
            (".spec.l[9]", json!([])),
            (".spec.l[*]", json!(["x", "y", "z"])),
            (".spec.l[1:]", json!(["y", "z"])),
            (".spec.l[:-1]", json!(["x", "y"])),
            (".spec.l[::2]", json!(["x", "z"])),
            (".spec.l[0,2]", json!(["x", "z"])),
            (".spec.o.*", json!([1])),
            (".spec['o'].k", json!([1])),
            (".spec['a.b/c']", json!(["dotted"])),
            (r".spec.a\.b/c", json!(["dotted"])),
            (
                r#".status.conditions[?(@.type=="Ready")].status"#,
                json!(["True"]),
            ),
            (
                ".status.conditions[?(@.type=='Ready')].status",
                json!(["True"]),
            ),
            (
                r#".status.conditions[?(@.type!="Ready")].status"#,
                json!(["False"]),
            ),
            (".status.conditions[?(@.n > 1)].type", json!(["Ready"])),
            (".status.conditions[?(@.n<=1)].type", json!(["Other"])),
            (".status.conditions[?(@.none)].type", json!([])),
            (
                ".status.conditions[?(@.status)].type",
                json!(["Other", "Ready"]),
            ),
            (".", json!([])),
        ];
        for (path, expected) in cases {
            if path == "." {
                assert!(JsonPath::parse(path).unwrap().members().unwrap().is_empty());
                continue;
            }
            assert_eq!(Value::Array(found(path)), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [
            "",
            ".a[",
            ".a[x]",
            ".a[?(@.b==)]",
            ".a[?(@.b=1)]",
            ".a['b]",
            ".a[?(@.b==\"c\"]",
            "..a",
            ".a[1:2:0]",
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_plain_path_can_be_set() {
        let path = JsonPath::parse(".spec.replicas").unwrap();
        let mut object = json!({"metadata": {}});
        assert!(path.set(&mut object, json!(3)));
        assert_eq!(object, json!({"metadata": {}, "spec": {"replicas": 3}}));
        assert!(
            !JsonPath::parse(".spec.replicas.x")
                .unwrap()
                .set(&mut object, json!(3))
        );
        assert!(
            !JsonPath::parse(".spec[*]")
                .unwrap()
                .set(&mut object, json!(3))
        );
    }

    #[test]
    fn cells_show_values_as_tables_do() {
        let cases = [
            (json!("text"), "text"),
            (json!(5), "5"),
            (json!(1.5), "1.5"),
            (json!(true), "true"),
            (json!(["x", "y"]), r#"["x","y"]"#),
            (json!({"k": 1}), r#"{"k":1}"#),
            (Value::Null, "<no value>"),
        ];
        for (value, expected) in cases {
            assert_eq!(cell_text(&value), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[.a\\[\\]?(@)=\"'0-9*:,\\\\ ]{0,30}") {
            if let Ok(path) = JsonPath::parse(&text) {
                let _ = path.find(&json!({"a": [{"a": 1}, [2]]}));
            }
        }
    }
}
