//! Selectors: how they read, and what they select.

use super::*;
use serde_json::json;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|&(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

#[test]
fn requirements_match_labels() {
    let here = labels(&[("app", "x"), ("n", "5"), ("e", "")]);
    let cases = [
        ("", true),
        ("app", true),
        ("!app", false),
        ("other", false),
        ("!other", true),
        ("app=x", true),
        ("app==x", true),
        ("app=y", false),
        ("app!=y", true),
        ("other!=y", true),
        ("app in (x,y)", true),
        ("app in (y)", false),
        ("other in (y)", false),
        ("app notin (y)", true),
        ("other notin (y)", true),
        ("app notin (x)", false),
        ("e=", true),
        ("e in ()", true),
        ("n>4", true),
        ("n>5", false),
        ("n<6", true),
        ("app<6", false),
        ("other>1", false),
        ("app=x,n", true),
        ("app=x,!n", false),
    ];
    for (text, expected) in cases {
        let selector = LabelSelector::parse(text).unwrap();
        assert_eq!(selector.matches(&here), expected, "{text}");
    }
}

#[test]
fn a_selector_object_has_a_canonical_text() {
    let object = json!({
        "matchLabels": {"tier": "t", "app": "x"},
        "matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["b", "a"]},
            {"key": "old", "operator": "DoesNotExist"},
            {"key": "new", "operator": "Exists"},
            {"key": "kind", "operator": "NotIn", "values": ["k"]},
        ],
    });
    let selector = LabelSelector::from_object(Some(&object)).unwrap();
    assert_eq!(
        selector.to_string(),
        "app=x,kind notin (k),new,!old,tier=t,zone in (a,b)"
    );
}

#[test]
fn no_selector_selects_nothing_and_an_empty_one_everything() {
    let none = labels(&[]);
    assert!(!LabelSelector::from_object(None).unwrap().matches(&none));
    assert!(
        !LabelSelector::from_object(Some(&Value::Null))
            .unwrap()
            .matches(&none)
    );
    assert!(
        LabelSelector::from_object(Some(&json!({})))
            .unwrap()
            .matches(&none)
    );
}

#[test]
fn a_selector_object_is_checked_part_by_part() {
    let object = json!({
        "matchLabels": {"a b": "c"},
        "matchExpressions": [
            {"key": "k", "operator": "In"},
            {"key": "k", "operator": "Exists", "values": ["v"]},
            {"key": "k", "operator": "Like", "values": ["-"]},
        ],
    });
    let path = Path::new("spec").child("selector");
    let errors = validate_label_selector(Some(&object), InvalidValues::Refused, &path);
    let texts: Vec<String> = errors.iter().map(Error::to_string).collect();
    assert!(texts[0].starts_with("spec.selector.matchLabels: Invalid value: \"a b\": name part"));
    assert_eq!(
        texts[1],
        "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
    );
    assert_eq!(
        texts[2],
        "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
    );
    assert_eq!(
        texts[3],
        "spec.selector.matchExpressions[2].operator: Invalid value: \"Like\": not a valid selector operator"
    );
    assert!(
        texts[4].starts_with("spec.selector.matchExpressions[2].values[0]: Invalid value: \"-\"")
    );
    let tolerant = validate_label_selector(Some(&object), InvalidValues::Allowed, &path);
    assert_eq!(tolerant.len(), 4);
}
