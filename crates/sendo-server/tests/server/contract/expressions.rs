//! Expressions: whether they compile, and what they are true of.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::place::{Answer, DEFINITIONS, Place, widgets};
use super::schemas::short;
use super::table;

/// How many rules one definition is given.
const TOGETHER: usize = 25;

#[derive(Deserialize)]
struct Rules {
    /// The schema of `spec`, which rules are about.
    schema: Value,
    accepted: Vec<String>,
    refused: Vec<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(flatten)]
    rule: BTreeMap<String, Value>,
    with: Vec<String>,
}

/// Compiles each rule in a definition of its own.
pub(crate) async fn compile(text: &str) {
    let rules: Rules = table(text);
    let place = Place::open().await;
    let create_with = async |rule: &Value| -> Answer {
        let mut schema = rules.schema.clone();
        schema["x-kubernetes-validations"] = json!([rule]);
        let path = format!("{DEFINITIONS}?dryRun=All");
        place.post(&path, &widgets("widgets", &schema)).await
    };
    for rule in &rules.accepted {
        let answer = create_with(&json!({"rule": rule})).await;
        assert_eq!(answer.code, 201, "{rule}: {}", answer.body["message"]);
    }
    for refusal in &rules.refused {
        let answer = create_with(&json!(refusal.rule)).await;
        let causes: Vec<String> = answer.causes().iter().map(|cause| told(cause)).collect();
        assert_eq!(causes, refusal.with, "{:?}", refusal.rule);
    }
    place.close().await;
}

/// A cause without the rule it repeats, the line it points into, and numbers in names of types.
fn told(cause: &str) -> String {
    let cause = short(cause).replace("schema.properties[spec].x-kubernetes-validations[0].", "");
    let cause = match (cause.find("Invalid value: {"), cause.find("}: ")) {
        (Some(start), Some(end)) if start < end => {
            format!("{}{}", &cause[..start], &cause[end + 3..])
        }
        _ => cause,
    };
    let line = cause.split("\n | ").next().unwrap_or_default();
    let mut told = String::new();
    for (i, part) in line.split("selfType").enumerate() {
        if i > 0 {
            told.push_str("selfType");
        }
        let numbered = i > 0;
        told.push_str(if numbered {
            part.trim_start_matches(|c: char| c.is_ascii_digit())
        } else {
            part
        });
    }
    told
}

#[derive(Deserialize)]
struct Expressions {
    schema: Value,
    /// The `spec` that expressions are about.
    object: Value,
    #[serde(rename = "true")]
    holds: Vec<String>,
    #[serde(rename = "false")]
    fails: Vec<String>,
    /// Expressions without a value, and why.
    faults: Vec<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    rule: String,
    with: String,
}

/// Evaluates many expressions over one object, some in each definition.
pub(crate) async fn evaluate(text: &str) {
    let expressions: Expressions = table(text);
    let place = Place::open().await;
    let holds = expressions.holds.iter().map(|rule| (rule.as_str(), None));
    let fails = expressions
        .fails
        .iter()
        .map(|rule| (rule.as_str(), Some("")));
    let faults = expressions.faults.iter();
    let faults = faults.map(|fault| (fault.rule.as_str(), Some(fault.with.as_str())));
    let all: Vec<(&str, Option<&str>)> = holds.chain(fails).chain(faults).collect();
    for (batch, rules) in all.chunks(TOGETHER).enumerate() {
        let plural = format!("batch{batch}s");
        let given = rules.iter().enumerate();
        let given: Vec<Value> = given
            .map(|(i, (rule, _))| json!({"rule": rule, "message": format!("#{i}#")}))
            .collect();
        let mut schema = expressions.schema.clone();
        schema["x-kubernetes-validations"] = given.into();
        let definition = widgets(&plural, &schema);
        let made = place.define(&definition).await;
        assert_eq!(made.code, 201, "{}", made.body["message"]);
        let object = json!({
            "apiVersion": "example.dev/v1", "kind": definition["spec"]["names"]["kind"],
            "metadata": {"name": "w"}, "spec": expressions.object,
        });
        let path = format!("/apis/example.dev/v1/namespaces/here/{plural}?dryRun=All");
        let answer = place.post(&path, &object).await;
        let causes = answer.causes();
        for (i, (rule, expected)) in rules.iter().enumerate() {
            let mark = format!("#{i}#");
            let cause = causes.iter().find(|cause| cause.contains(&mark));
            let outcome = cause.map(|cause| fault(cause, &mark));
            assert_eq!(outcome.as_deref(), *expected, "{rule}");
        }
    }
    place.close().await;
}

/// What kept a rule from having a value; empty if it is false.
fn fault(cause: &str, mark: &str) -> String {
    let text = cause.trim_start_matches("spec: Invalid value: ");
    let text = text.trim_start_matches("\"object\": ");
    let text = text.replace(&format!(" evaluating rule: {mark}"), "");
    text.replace(&format!(" for rule: {mark}"), "")
        .replace(mark, "")
}
