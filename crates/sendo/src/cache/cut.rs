//! JSON of which parts are cut out before it is decoded.

use std::ops::Range;

use sendo_json::{end_of_string, end_of_value, skip_white_space};

use super::metadata::KeptMetadata;

/// Which part of a JSON value is decoded.
#[derive(Clone, Debug, Default)]
pub(super) enum Part {
    #[default]
    Whole,
    Nothing,
    /// All members of an object, and only part of some.
    AllBut(Named),
    /// Some members, of an object or of each object of a list.
    Only(Named),
}

/// Parts of members, by name. There are a dozen at most, which are found soonest in a row.
type Named = Vec<(Vec<u8>, Part)>;

impl Part {
    /// An object without its `metadata.managedFields`: they are half of many
    /// objects, and would be decoded only to be dropped.
    pub(super) fn without_managed_fields() -> Self {
        let metadata = Part::AllBut(vec![(b"managedFields".to_vec(), Part::Nothing)]);
        Part::AllBut(vec![(b"metadata".to_vec(), metadata)])
    }

    /// Narrows an object down to its type, its metadata as far as they are
    /// decoded already, and the fields at `paths`.
    pub(super) fn only(self, paths: &[String]) -> Self {
        let metadata = match self {
            Part::AllBut(named) => {
                let mut named = named.into_iter();
                let metadata = named.find(|(name, _)| name == b"metadata");
                metadata.map_or(Part::Whole, |(_, part)| part)
            }
            _ => Part::Whole,
        };
        let mut fields = Named::new();
        for path in paths {
            add(&mut fields, path);
        }
        *part_of(&mut fields, b"apiVersion") = Part::Whole;
        *part_of(&mut fields, b"kind") = Part::Whole;
        *part_of(&mut fields, b"metadata") = metadata;
        Part::Only(fields)
    }

    /// Narrows it down by the field at `path`.
    pub(super) fn without(self, path: &str) -> Self {
        let (name, below) = match path.split_once('.') {
            Some((name, below)) => (name.as_bytes(), Some(below)),
            None => (path.as_bytes(), None),
        };
        let less = |part: Part| below.map_or(Part::Nothing, |below| part.without(below));
        let change = |mut named: Named, unnamed: Option<Part>| {
            match named.iter_mut().find(|(own, _)| own == name) {
                Some((_, part)) => *part = less(std::mem::take(part)),
                None => named.extend(unnamed.map(|part| (name.to_vec(), less(part)))),
            }
            named
        };
        match self {
            Part::Whole => Part::AllBut(change(Named::new(), Some(Part::Whole))),
            Part::Nothing => Part::Nothing,
            Part::AllBut(named) => Part::AllBut(change(named, Some(Part::Whole))),
            Part::Only(named) => Part::Only(change(named, None)),
        }
    }

    /// The metadata that are decoded of an object; `None` if of a member there is
    /// decoded only a part.
    pub(super) fn metadata(&self) -> Option<KeptMetadata> {
        let metadata = match self {
            Part::Whole => &Part::Whole,
            Part::Nothing => &Part::Nothing,
            Part::AllBut(named) => find(named, b"metadata").unwrap_or(&Part::Whole),
            Part::Only(named) => find(named, b"metadata").unwrap_or(&Part::Nothing),
        };
        let left_out = |(name, part): &(Vec<u8>, Part)| match part {
            Part::Nothing => String::from_utf8(name.clone()).ok(),
            _ => None,
        };
        match metadata {
            Part::Whole => Some(KeptMetadata::default()),
            Part::AllBut(named) => {
                let left_out: Option<_> = named.iter().map(left_out).collect();
                left_out.map(KeptMetadata::without)
            }
            Part::Nothing | Part::Only(_) => None,
        }
    }

    /// The JSON of an object, as far as it is decoded; `None` if that is all of
    /// it, or if it is no JSON.
    pub(super) fn cut(&self, json: &[u8]) -> Option<Vec<u8>> {
        let mut cut = Cut {
            json,
            kept: Vec::with_capacity(json.len()),
            from: 0,
        };
        cut.value(self, skip_white_space(json, 0), true)?;
        if cut.from == 0 {
            return None;
        }
        cut.kept.extend_from_slice(&json[cut.from..]);
        Some(cut.kept)
    }
}

fn find<'n>(named: &'n Named, name: &[u8]) -> Option<&'n Part> {
    let mut named = named.iter();
    named.find(|(own, _)| own == name).map(|(_, part)| part)
}

/// The part that is decoded of a member: nothing, if it was not named yet.
fn part_of<'f>(fields: &'f mut Named, name: &[u8]) -> &'f mut Part {
    let place = fields.iter().position(|(own, _)| own == name);
    let place = place.unwrap_or_else(|| {
        fields.push((name.to_vec(), Part::Nothing));
        fields.len() - 1
    });
    &mut fields[place].1
}

/// Adds the field at a path to those that are decoded.
fn add(fields: &mut Named, path: &str) {
    let (name, below) = match path.split_once('.') {
        Some((name, below)) => (name, Some(below)),
        None => (path, None),
    };
    let part = part_of(fields, name.as_bytes());
    match (below, &mut *part) {
        (_, Part::Whole) => {}
        (None, _) => *part = Part::Whole,
        (Some(below), Part::Only(fields)) => add(fields, below),
        (Some(below), _) => {
            let mut fields = Named::new();
            add(&mut fields, below);
            *part = Part::Only(fields);
        }
    }
}

/// JSON that is gone through, and what is kept of it.
struct Cut<'a> {
    json: &'a [u8],
    kept: Vec<u8>,
    /// How far it was kept or left out; what follows is still to be kept.
    from: usize,
}

impl Cut<'_> {
    fn leave_out(&mut self, range: Range<usize>) {
        self.kept
            .extend_from_slice(&self.json[self.from..range.start]);
        self.from = range.end;
    }

    /// Goes through the value at `at`; the place behind it. With `is_last`,
    /// nothing behind what is to be cut has to be looked at.
    fn value(&mut self, part: &Part, at: usize, is_last: bool) -> Option<usize> {
        match (part, self.json.get(at)?) {
            (Part::AllBut(named), b'{') => self.object(named, true, at, is_last),
            (Part::Only(named), b'{') => self.object(named, false, at, is_last),
            (Part::Only(named), b'[') => {
                let mut at = skip_white_space(self.json, at + 1);
                while self.json.get(at)? != &b']' {
                    at = match self.json[at] {
                        b'{' => self.object(named, false, at, false)?,
                        _ => end_of_value(self.json, at, 0)?,
                    };
                    at = skip_white_space(self.json, at);
                    if self.json.get(at) == Some(&b',') {
                        at = skip_white_space(self.json, at + 1);
                    }
                }
                Some(at + 1)
            }
            _ => end_of_value(self.json, at, 0),
        }
    }

    fn object(
        &mut self,
        named: &[(Vec<u8>, Part)],
        others: bool,
        open: usize,
        is_last: bool,
    ) -> Option<usize> {
        let json = self.json;
        let mut left = named.len();
        // Where the members begin that were left out last, and where those end that were kept.
        let (mut out, mut kept) = (None, open + 1);
        let mut at = skip_white_space(json, open + 1);
        while json.get(at)? != &b'}' {
            if others && left == 0 {
                // Nothing here is to be cut any more.
                if let Some(from) = out {
                    self.leave_out(from..at);
                }
                return if is_last {
                    Some(at)
                } else {
                    end_of_value(json, at, 1)
                };
            }
            let name = at..end_of_string(json, at)?;
            let colon = skip_white_space(json, name.end);
            if json.get(colon) != Some(&b':') {
                return None;
            }
            let value = skip_white_space(json, colon + 1);
            let inner = &json[name.start + 1..name.end - 1];
            let part = match named.iter().find(|(own, _)| own == inner) {
                Some((_, part)) => {
                    left = left.saturating_sub(1);
                    part
                }
                None if others => &Part::Whole,
                None => &Part::Nothing,
            };
            let behind = if matches!(part, Part::Nothing) {
                out.get_or_insert(name.start);
                end_of_value(json, value, 0)?
            } else {
                if let Some(from) = out.take() {
                    self.leave_out(from..name.start);
                }
                let is_last = is_last && others && left == 0;
                kept = self.value(part, value, is_last)?;
                if is_last {
                    return Some(kept);
                }
                kept
            };
            at = skip_white_space(json, behind);
            if json.get(at) == Some(&b',') {
                at = skip_white_space(json, at + 1);
            }
        }
        if out.is_some() {
            // A comma before them goes too.
            self.leave_out(kept..at);
        }
        Some(at + 1)
    }
}

#[cfg(test)]
mod tests {
    use kube::core::PartialObjectMeta;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn cut(json: &str) -> Option<String> {
        let cut = Part::without_managed_fields().cut(json.as_bytes());
        cut.map(|json| String::from_utf8(json).unwrap())
    }

    fn only(paths: &[&str]) -> Part {
        let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
        Part::without_managed_fields().only(&paths)
    }

    #[test]
    fn only_the_fields_that_are_named_are_left() {
        let part = only(&["spec.nodeName", "spec.containers.ports", "status"]);
        for (whole, left) in [
            (
                r#"{"kind":"Pod","spec":{"containers":[{"name":"a","ports":[1]},{"name":"b"},3],"nodeName":"n"},"status":{"a":1}}"#,
                r#"{"kind":"Pod","spec":{"containers":[{"ports":[1]},{},3],"nodeName":"n"},"status":{"a":1}}"#,
            ),
            (
                r#"{ "other" : 1 , "metadata" : {"managedFields":[], "name" : "x"} , "spec" : { "a" : 1 , "nodeName" : "n" , "b" : 2 } }"#,
                r#"{ "metadata" : {"name" : "x"} , "spec" : { "nodeName" : "n"} }"#,
            ),
            (r#"{"spec":{"a":1}}"#, r#"{"spec":{}}"#),
            (r#"{"spec":7,"more":[]}"#, r#"{"spec":7}"#),
        ] {
            let cut = part.cut(whole.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(cut).unwrap(), left);
        }
        assert_eq!(part.cut(br#"{"kind":"Pod","status":{}}"#), None);
    }

    #[test]
    fn fields_that_are_left_out_are_left_out_of_what_is_named() {
        let whole = br#"{"kind":"A","metadata":{"annotations":{"a":"b"},"labels":{},"managedFields":[],"name":"x"},"spec":{"a":{"b":1,"c":2},"d":3}}"#;
        let paths = ["metadata.annotations", "spec.a.b"];
        for (part, left) in [
            (
                Part::Whole,
                r#"{"kind":"A","metadata":{"labels":{},"managedFields":[],"name":"x"},"spec":{"a":{"c":2},"d":3}}"#,
            ),
            (
                Part::without_managed_fields(),
                r#"{"kind":"A","metadata":{"labels":{},"name":"x"},"spec":{"a":{"c":2},"d":3}}"#,
            ),
            (
                only(&["spec.a"]),
                r#"{"kind":"A","metadata":{"labels":{},"name":"x"},"spec":{"a":{"c":2}}}"#,
            ),
            (
                only(&["spec.d"]),
                r#"{"kind":"A","metadata":{"labels":{},"name":"x"},"spec":{"d":3}}"#,
            ),
        ] {
            let part = paths.into_iter().fold(part, Part::without);
            let cut = part.cut(whole).unwrap();
            assert_eq!(String::from_utf8(cut).unwrap(), left);
        }
    }

    #[test]
    fn it_is_known_which_metadata_are_left() {
        let all = br#"{"metadata":{"annotations":{"a":"b"},"labels":{"c":"d"},"managedFields":[],"name":"x"}}"#;
        let without = |part: Part| part.without("metadata.annotations");
        for part in [
            Part::Whole,
            Part::without_managed_fields(),
            without(Part::Whole),
            without(Part::without_managed_fields()),
            only(&["spec"]),
            without(only(&["spec"])).without("spec.a"),
        ] {
            let read = |json: &[u8]| serde_json::from_slice::<PartialObjectMeta>(json).unwrap();
            let left = part.cut(all);
            let left = read(left.as_deref().unwrap_or(all)).metadata;
            assert_eq!(part.metadata().unwrap().apply_to(&read(all).metadata), left);
        }
        for part in [
            Part::Whole.without("metadata"),
            Part::Whole.without("metadata.labels.c"),
        ] {
            assert!(part.metadata().is_none());
        }
    }

    #[test]
    fn a_path_within_another_adds_nothing() {
        let whole = br#"{"spec":{"a":{"b":1,"c":2},"d":3}}"#;
        for paths in [["spec.a", "spec.a.b"], ["spec.a.b", "spec.a"]] {
            let cut = only(&paths).cut(whole).unwrap();
            assert_eq!(cut, br#"{"spec":{"a":{"b":1,"c":2}}}"#);
        }
    }

    #[test]
    fn the_fields_go_with_one_comma() {
        for (whole, without) in [
            (
                r#"{"metadata":{"managedFields":[{"a":"]\""}],"name":"x"},"spec":{}}"#,
                r#"{"metadata":{"name":"x"},"spec":{}}"#,
            ),
            (
                r#"{"a":1, "metadata": {"name": "x", "managedFields": []}}"#,
                r#"{"a":1, "metadata": {"name": "x"}}"#,
            ),
            (
                r#"{"metadata":{"managedFields":null}}"#,
                r#"{"metadata":{}}"#,
            ),
        ] {
            assert_eq!(cut(whole).as_deref(), Some(without));
        }
    }

    #[test]
    fn fields_of_that_name_elsewhere_stay() {
        assert_eq!(
            cut(r#"{"metadata":{"labels":{"managedFields":"[]"}},"managedFields":[]}"#),
            None
        );
        assert_eq!(
            cut(
                r#"{"spec":{"metadata":{"managedFields":[]}},"metadata":{"a":"\"managedFields\":[]"}}"#
            ),
            None
        );
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z\"\\\\{}\\[\\],: \n]{0,6}".prop_map(Value::from),
        ];
        let name = prop_oneof![
            Just("metadata".to_owned()),
            Just("managedFields".to_owned()),
            "[a-z\"\\\\]{0,3}",
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(name.clone(), inner, 0..4)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_else_changes(metadata in any_value(), rest in any_value(), pretty: bool) {
            let object = json!({"kind": rest, "metadata": metadata, "spec": rest});
            let mut expected = object.clone();
            let removed = expected["metadata"]
                .as_object_mut()
                .and_then(|metadata| metadata.remove("managedFields"));
            let text = if pretty { format!("{object:#}") } else { object.to_string() };
            let left = cut(&text).map(|text| serde_json::from_str::<Value>(&text).unwrap());
            prop_assert_eq!(left, removed.map(|_| expected));
        }

        #[test]
        fn what_is_named_does_not_change(spec in any_value(), rest in any_value(), pretty: bool) {
            let object = json!({"a": rest, "kind": rest, "spec": {"a": rest, "metadata": spec}, "z": rest});
            let expected = json!({"kind": rest, "spec": {"metadata": spec}});
            let text = if pretty { format!("{object:#}") } else { object.to_string() };
            let left = only(&["spec.metadata"]).cut(text.as_bytes()).unwrap();
            prop_assert_eq!(serde_json::from_slice::<Value>(&left).unwrap(), expected);
        }

        #[test]
        fn nonsense_is_left_alone(text in "[\\[\\]{}\",:\\\\a ]{0,24}") {
            let _ = cut(&text);
            let _ = cut(&format!("{{\"metadata\":{text}"));
            let _ = only(&["a.a"]).cut(format!("{{\"a\":{text}").as_bytes());
        }
    }
}
