//! Sets of fields.

use std::fmt;

use serde_json::{Map, Value};

use super::element::PathElement;

/// A path to a field. Displays as conflicts show it: `.spec.containers[name="a"].image`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(pub Vec<PathElement>);

impl FieldPath {
    /// A path of members only.
    pub fn of_fields<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        FieldPath(names.into_iter().map(PathElement::field).collect())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

/// A set of fields.
///
/// A field is in it by itself: having all members of an object is not the same
/// as having the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// In the order of their steps, none of them empty.
    nodes: Vec<(PathElement, Node)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    /// Whether the field itself is in the set.
    is_member: bool,
    below: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }

    fn at(&self) -> At<'_> {
        At {
            is_member: self.is_member,
            below: &self.below,
        }
    }
}

/// The node at a path element of a set.
#[derive(Clone, Copy)]
pub(super) struct At<'s> {
    pub(super) is_member: bool,
    pub(super) below: &'s FieldSet,
}

impl FieldSet {
    /// A set without fields.
    pub fn new() -> Self {
        FieldSet::default()
    }

    /// Whether it has no field.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The position of a path element, or where it is to be inserted.
    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        match self.nodes.last() {
            // Sets are mostly made in their order.
            Some((last, _)) if last < element => Err(self.nodes.len()),
            _ => self.nodes.binary_search_by(|(own, _)| own.cmp(element)),
        }
    }

    fn get(&self, element: &PathElement) -> Option<&Node> {
        self.find(element).ok().map(|at| &self.nodes[at].1)
    }

    fn get_or_insert(&mut self, element: PathElement) -> &mut Node {
        let at = self.find(&element).unwrap_or_else(|at| {
            self.nodes.insert(at, (element, Node::default()));
            at
        });
        &mut self.nodes[at].1
    }

    /// Adds a field. The empty path, which is the object itself, is passed over.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let node = self.get_or_insert(first.clone());
        match rest {
            [] => node.is_member = true,
            rest => node.below.insert(rest),
        }
    }

    /// Whether a field is in it.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path.split_first() {
            None => false,
            Some((first, [])) => self.has(first),
            Some((first, rest)) => self.get(first).is_some_and(|n| n.below.contains(rest)),
        }
    }

    /// Whether the field one step down is in it.
    pub(super) fn has(&self, element: &PathElement) -> bool {
        self.get(element).is_some_and(|node| node.is_member)
    }

    /// What it has below a step, if anything.
    pub(super) fn below(&self, element: &PathElement) -> Option<&FieldSet> {
        self.get(element)
            .map(|node| &node.below)
            .filter(|below| !below.is_empty())
    }

    /// The node at a member, if there is one.
    pub(super) fn field(&self, name: &str) -> Option<At<'_>> {
        let index = self.nodes.binary_search_by(|(own, _)| match own {
            PathElement::Field(own) => own.as_str().cmp(name),
            // Members come first.
            _ => std::cmp::Ordering::Greater,
        });
        index.ok().map(|at| self.nodes[at].1.at())
    }

    /// Its steps, in order.
    pub(super) fn steps(&self) -> impl Iterator<Item = (&PathElement, At<'_>)> {
        self.nodes
            .iter()
            .map(|(element, node)| (element, node.at()))
    }

    /// Its fields: those of a level before deeper ones.
    pub fn paths(&self) -> Vec<FieldPath> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<FieldPath>) {
        for (element, node) in &self.nodes {
            if node.is_member {
                let path = prefix.iter().chain([element]).cloned().collect();
                paths.push(FieldPath(path));
            }
        }
        for (element, node) in &self.nodes {
            prefix.push(element.clone());
            node.below.collect_paths(prefix, paths);
            prefix.pop();
        }
    }

    /// The fields that are in either.
    #[must_use]
    pub fn union(self, other: FieldSet) -> FieldSet {
        let (mut more, fewer) = match self.nodes.len() < other.nodes.len() {
            true => (other, self),
            false => (self, other),
        };
        for (element, node) in fewer.nodes {
            more.join(element, node.is_member, node.below);
        }
        more
    }

    /// Merges a node into the one at the path element.
    pub(super) fn join(&mut self, element: PathElement, is_member: bool, below: FieldSet) {
        if !is_member && below.is_empty() {
            return;
        }
        let own = self.get_or_insert(element);
        own.is_member |= is_member;
        own.below = std::mem::take(&mut own.below).union(below);
    }

    /// The fields that are in both.
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        self.combine(|element, node| {
            let other = other.get(element)?;
            Some(Node {
                is_member: node.is_member && other.is_member,
                below: node.below.intersection(&other.below),
            })
        })
    }

    /// Whether all fields of the other one are in this one.
    pub fn contains_all(&self, other: &FieldSet) -> bool {
        other.nodes.iter().all(|(element, node)| {
            self.get(element).is_some_and(|own| {
                (own.is_member || !node.is_member) && own.below.contains_all(&node.below)
            })
        })
    }

    /// Takes the fields of another one out.
    pub fn subtract(&mut self, other: &FieldSet) {
        for (element, node) in &other.nodes {
            let Ok(at) = self.find(element) else {
                continue;
            };
            let own = &mut self.nodes[at].1;
            own.is_member &= !node.is_member;
            own.below.subtract(&node.below);
            if own.is_empty() {
                self.nodes.remove(at);
            }
        }
    }

    /// The fields that are only in this one.
    #[must_use]
    pub fn difference(mut self, other: &FieldSet) -> FieldSet {
        self.subtract(other);
        self
    }

    /// The fields that are neither in the other one nor below a field of it.
    #[must_use]
    pub fn recursive_difference(mut self, other: &FieldSet) -> FieldSet {
        self.subtract_below(other);
        self
    }

    fn subtract_below(&mut self, other: &FieldSet) {
        for (element, node) in &other.nodes {
            let Ok(at) = self.find(element) else {
                continue;
            };
            let own = &mut self.nodes[at].1;
            if !node.is_member {
                own.below.subtract_below(&node.below);
            }
            if node.is_member || own.is_empty() {
                self.nodes.remove(at);
            }
        }
    }

    fn combine(&self, keep: impl Fn(&PathElement, &Node) -> Option<Node>) -> FieldSet {
        let nodes = self.nodes.iter().filter_map(|(element, node)| {
            Some((
                element.clone(),
                keep(element, node).filter(|node| !node.is_empty())?,
            ))
        });
        FieldSet {
            nodes: nodes.collect(),
        }
    }

    /// Sets the node at a path element; an empty one removes it.
    pub(super) fn set(&mut self, element: PathElement, is_member: bool, below: FieldSet) {
        let node = Node { is_member, below };
        match (self.find(&element), node.is_empty()) {
            (Ok(at), true) => drop(self.nodes.remove(at)),
            (Ok(at), false) => self.nodes[at].1 = node,
            (Err(_), true) => {}
            (Err(at), false) => self.nodes.insert(at, (element, node)),
        }
    }

    /// The set as `fieldsV1` holds it.
    pub fn to_json(&self) -> Value {
        Value::Object(self.to_members())
    }

    fn to_members(&self) -> Map<String, Value> {
        self.nodes
            .iter()
            .map(|(element, node)| {
                let mut members = node.below.to_members();
                if node.is_member && !members.is_empty() {
                    members.insert(".".to_owned(), Value::Object(Map::new()));
                }
                (element.to_name(), Value::Object(members))
            })
            .collect()
    }

    /// The text of `fieldsV1` to the byte as Kubernetes writes it: steps in the
    /// order of the set, which for keys is that of their values.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        self.write_text(false, &mut text);
        text
    }

    fn write_text(&self, with_self: bool, text: &mut String) {
        text.push('{');
        let mut first = true;
        if with_self && !self.is_empty() {
            text.push_str(r#"".":{}"#);
            first = false;
        }
        for (element, node) in &self.nodes {
            if !std::mem::take(&mut first) {
                text.push(',');
            }
            text.push_str(&crate::go_json(&Value::String(element.to_name())));
            text.push(':');
            node.below.write_text(node.is_member, text);
        }
        text.push('}');
    }

    /// Reads the set of a `fieldsV1`. Steps of an unknown kind are passed over.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let mut set = FieldSet::default();
        let Value::Object(members) = value else {
            return match value {
                Value::Null => Ok(set),
                _ => Err("fieldsV1 must be an object".to_owned()),
            };
        };
        for (name, value) in members {
            if name == "." {
                continue;
            }
            let Some(element) = PathElement::from_name(name)? else {
                continue;
            };
            let below = FieldSet::from_json(value)?;
            let is_member = below.is_empty() || value.get(".").is_some();
            set.set(element, is_member, below);
        }
        Ok(set)
    }
}

impl FromIterator<FieldPath> for FieldSet {
    fn from_iter<I: IntoIterator<Item = FieldPath>>(paths: I) -> Self {
        let mut set = FieldSet::new();
        paths.into_iter().for_each(|path| set.insert(&path.0));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(value: Value) -> FieldSet {
        FieldSet::from_json(&value).unwrap()
    }

    #[test]
    fn fields_v1_reads_back() {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {
                "f:ports": {r#"k:{"containerPort":80,"protocol":"TCP"}"#: {".": {}, "f:name": {}}},
                "f:set": {r#"v:"x""#: {}},
                "f:list": {"i:3": {}},
            },
        });
        assert_eq!(set(fields.clone()).to_json(), fields);
    }

    #[test]
    fn paths_are_reported_level_by_level() {
        let set = set(json!({
            "f:spec": {
                "f:deep": {"f:x": {}},
                "f:ports": {r#"k:{"port":80,"protocol":"TCP"}"#: {".": {}}},
                "f:set": {r#"v:"x""#: {}},
                "f:z": {},
            },
        }));
        let paths: Vec<String> = set.paths().iter().map(FieldPath::to_string).collect();
        assert_eq!(
            paths,
            [
                ".spec.z",
                ".spec.deep.x",
                r#".spec.ports[port=80,protocol="TCP"]"#,
                r#".spec.set[="x"]"#
            ]
        );
    }

    #[test]
    fn the_text_orders_keys_by_their_values() {
        let fields =
            json!({r#"k:{"port":443}"#: {}, r#"k:{"port":80}"#: {".": {}, "f:b": {}}, "f:a": {}});
        assert_eq!(
            set(fields).to_text(),
            r#"{"f:a":{},"k:{\"port\":80}":{".":{},"f:b":{}},"k:{\"port\":443}":{}}"#
        );
    }

    #[test]
    fn sets_combine_field_by_field() {
        let a = set(json!({"f:x": {".": {}, "f:a": {}, "f:b": {}}, "f:y": {}}));
        let b = set(json!({"f:x": {"f:a": {}, "f:c": {}}, "f:z": {}}));
        assert_eq!(
            a.clone().union(b.clone()).to_json(),
            json!({"f:x": {".": {}, "f:a": {}, "f:b": {}, "f:c": {}}, "f:y": {}, "f:z": {}})
        );
        assert_eq!(a.intersection(&b).to_json(), json!({"f:x": {"f:a": {}}}));
        assert_eq!(
            a.clone().difference(&b).to_json(),
            json!({"f:x": {".": {}, "f:b": {}}, "f:y": {}})
        );
        let whole = set(json!({"f:x": {}}));
        assert_eq!(
            a.clone().recursive_difference(&whole).to_json(),
            json!({"f:y": {}})
        );
        assert_eq!(
            a.clone().difference(&whole).to_json(),
            json!({"f:x": {"f:a": {}, "f:b": {}}, "f:y": {}})
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for value in [
            json!({"f": {}}),
            json!({"fx": {}}),
            json!({"k:x": {}}),
            json!({"i:x": {}}),
            json!({"f:a": 1}),
            json!([]),
        ] {
            assert!(FieldSet::from_json(&value).is_err(), "{value}");
        }
        assert_eq!(set(json!({"q:unknown": {}})), FieldSet::new());
    }

    fn any_set() -> impl proptest::strategy::Strategy<Value = FieldSet> {
        use proptest::prelude::*;
        let element = prop_oneof![
            "[a-c]".prop_map(PathElement::field),
            (0..3i64).prop_map(|n| PathElement::key(vec![("k".to_owned(), n.into())])),
            "[a-c]".prop_map(|v| PathElement::Value(v.into())),
        ];
        let path = proptest::collection::vec(element, 1..4).prop_map(FieldPath);
        proptest::collection::vec(path, 0..8).prop_map(|paths| paths.into_iter().collect())
    }

    proptest::proptest! {
        #[test]
        fn any_set_reads_back(set in any_set()) {
            proptest::prop_assert_eq!(&FieldSet::from_json(&set.to_json()).unwrap(), &set);
            let text: Value = serde_json::from_str(&set.to_text()).unwrap();
            proptest::prop_assert_eq!(text, set.to_json());
        }

        #[test]
        fn a_set_is_its_part_in_another_and_the_rest(a in any_set(), b in any_set()) {
            let whole = a.intersection(&b).union(a.clone().difference(&b));
            proptest::prop_assert_eq!(&whole, &a);
            proptest::prop_assert!(a.clone().difference(&b).intersection(&b).is_empty());
            proptest::prop_assert!(a.contains_all(&a.intersection(&b)));
            proptest::prop_assert_eq!(a.contains_all(&b), b.clone().difference(&a).is_empty());
        }

        #[test]
        fn any_json_is_read_or_refused(name in "\\PC{0,12}") {
            let _ = FieldSet::from_json(&json!({ name: {} }));
        }
    }
}
