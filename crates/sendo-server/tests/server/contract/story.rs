//! Stories: requests one after another, each with the response that is expected.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::place::{ADMISSION, Answer, DEFINITIONS, Place, REGISTRATION, kind_of};
use super::table;

#[derive(Deserialize)]
struct Story {
    about: String,
    /// Definitions that are made before it begins, and stay for the stories after it.
    #[serde(default)]
    definitions: Vec<Value>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    /// `verb collection/name[/subresource][?query] [as manager]`
    r#do: String,
    #[serde(default)]
    body: Value,
    /// The code; any of success if neither this nor `says` is given.
    code: Option<u16>,
    /// The message of a refusal; `<uid>` stands for any uid in it.
    says: Option<String>,
    /// The causes of a refusal.
    causes: Option<Vec<String>>,
    /// Values in the answer by pointer; null if they are absent.
    #[serde(default)]
    has: BTreeMap<String, Value>,
    /// Who owns which fields.
    owners: Option<BTreeMap<String, String>>,
    /// Whether the object is the one from before: version and times too.
    #[serde(default)]
    unchanged: bool,
    /// Warnings of the answer.
    warns: Option<Vec<String>>,
    /// Repeats the request until the answer is as told.
    #[serde(default)]
    eventually: bool,
    /// The node that sends it.
    node: Option<String>,
}

/// Runs all stories of a table.
pub(crate) async fn run(text: &str) {
    let place = Place::open().await;
    for story in table::<Vec<Story>>(text) {
        for definition in &story.definitions {
            let made = place.define(definition).await;
            assert_eq!(made.code, 201, "{}: {}", story.about, made.body);
        }
        let mut before = BTreeMap::new();
        for (i, step) in story.steps.iter().enumerate() {
            let shown = format!("{} ({}: {})", story.about, i + 1, step.r#do);
            let request = Request::new(step, &before);
            let mut answer = request.send(&place).await;
            for _ in 0..100 {
                if !step.eventually || step.fault(&answer, before.get(&request.object)).is_none() {
                    break;
                }
                place.wait(100).await;
                answer = request.send(&place).await;
            }
            if let Some(fault) = step.fault(&answer, before.get(&request.object)) {
                panic!("{shown}: {fault}\nanswer: {} {}", answer.code, answer.body);
            }
            if request.is_definition() {
                place.settle().await;
            }
            if answer.code < 300 {
                before.insert(request.object, answer.body);
            }
        }
    }
    place.close().await;
}

struct Request {
    method: &'static str,
    /// The path of the object that it is about.
    object: String,
    /// The path without its query.
    path: String,
    query: String,
    content_type: &'static str,
    body: Value,
    node: Option<String>,
}

impl Request {
    fn new(step: &Step, before: &BTreeMap<String, Value>) -> Self {
        let mut words = step.r#do.split(' ');
        let (verb, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let mut query = Vec::new();
        let (target, given) = target.split_once('?').unwrap_or((target, ""));
        query.extend((!given.is_empty()).then(|| given.to_owned()));
        if let (Some("as"), Some(manager)) = (words.next(), words.next()) {
            query.push(format!("fieldManager={manager}"));
        }
        query.extend((verb == "force").then(|| "force=true".to_owned()));
        let (method, content_type) = match verb {
            "apply" | "force" => ("PATCH", "application/apply-patch+yaml"),
            "merge" => ("PATCH", "application/merge-patch+json"),
            "patch" => ("PATCH", "application/json-patch+json"),
            "create" => ("POST", "application/json"),
            "put" => ("PUT", "application/json"),
            "delete" => ("DELETE", "application/json"),
            "get" => ("GET", "application/json"),
            other => panic!("{other} is no verb of stories"),
        };
        let collection = Collection::parse(target);
        let mut body = step.body.clone();
        if matches!(verb, "apply" | "force" | "create" | "put") {
            collection.complete(&mut body);
        }
        if verb == "put"
            && let Some(old) = before.get(&collection.path)
            && body["metadata"].get("resourceVersion").is_none()
        {
            body["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        }
        let object = collection.path;
        let path = match verb {
            "create" => collection.parent,
            _ => object.clone(),
        };
        let query = if query.is_empty() {
            String::new()
        } else {
            format!("?{}", query.join("&"))
        };
        Request {
            method,
            object,
            path,
            query,
            content_type,
            body,
            node: step.node.clone(),
        }
    }

    async fn send(&self, place: &Place) -> Answer {
        let target = format!("{}{}", self.path, self.query);
        let node = self.node.as_deref();
        place
            .call_as(node, self.method, &target, self.content_type, &self.body)
            .await
    }

    fn is_definition(&self) -> bool {
        self.method != "GET" && self.path.starts_with(DEFINITIONS)
    }
}

/// Where the objects of a target are, and what each of them says of itself.
struct Collection {
    parent: String,
    path: String,
    api_version: String,
    kind: String,
    name: String,
}

impl Collection {
    /// Reads `maps/a`, `widgets.v2/a/status` or a whole path.
    fn parse(target: &str) -> Self {
        if target.starts_with('/') {
            return Collection {
                parent: target.to_owned(),
                path: target.to_owned(),
                api_version: String::new(),
                kind: String::new(),
                name: String::new(),
            };
        }
        let (first, rest) = target.split_once('/').unwrap_or((target, ""));
        let (plural, version) = first.split_once('.').unwrap_or((first, "v1"));
        let known = [
            ("maps", "/api/v1", "v1", "configmaps", "ConfigMap"),
            ("secrets", "/api/v1", "v1", "secrets", "Secret"),
            ("quotas", "/api/v1", "v1", "resourcequotas", "ResourceQuota"),
            ("services", "/api/v1", "v1", "services", "Service"),
            ("pods", "/api/v1", "v1", "pods", "Pod"),
            (
                "claims",
                "/api/v1",
                "v1",
                "persistentvolumeclaims",
                "PersistentVolumeClaim",
            ),
            (
                "deployments",
                "/apis/apps/v1",
                "apps/v1",
                "deployments",
                "Deployment",
            ),
        ];
        let name = rest.split('/').next().unwrap_or_default().to_owned();
        let (parent, api_version, kind) = match known.iter().find(|own| own.0 == plural) {
            Some((_, root, api_version, plural, kind)) => (
                format!("{root}/namespaces/here/{plural}"),
                (*api_version).to_owned(),
                (*kind).to_owned(),
            ),
            None if plural == "definitions" => (
                DEFINITIONS.to_owned(),
                "apiextensions.k8s.io/v1".to_owned(),
                "CustomResourceDefinition".to_owned(),
            ),
            None if let Some((_, plural, kind)) = ADMISSION.iter().find(|own| own.0 == plural) => (
                format!("{REGISTRATION}/{plural}"),
                "admissionregistration.k8s.io/v1".to_owned(),
                (*kind).to_owned(),
            ),
            None => (
                format!("/apis/example.dev/{version}/namespaces/here/{plural}"),
                format!("example.dev/{version}"),
                kind_of(plural),
            ),
        };
        let path = if rest.is_empty() {
            parent.clone()
        } else {
            format!("{parent}/{rest}")
        };
        Collection {
            parent,
            path,
            api_version,
            kind,
            name,
        }
    }

    /// Adds what a body leaves out: kind, version and name.
    fn complete(&self, body: &mut Value) {
        if self.kind.is_empty() {
            return;
        }
        if body.is_null() {
            *body = json!({});
        }
        let Some(members) = body.as_object_mut() else {
            return;
        };
        let scale = self.path.ends_with("/scale");
        let (api_version, kind) = match scale {
            true => ("autoscaling/v1", "Scale"),
            false => (self.api_version.as_str(), self.kind.as_str()),
        };
        members.entry("apiVersion").or_insert(api_version.into());
        members.entry("kind").or_insert(kind.into());
        let metadata = members.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.entry("name").or_insert(self.name.as_str().into());
        }
    }
}

impl Step {
    /// What of a response is not as expected.
    fn fault(&self, answer: &Answer, before: Option<&Value>) -> Option<String> {
        let differ = |what: &str, found: &Value, told: &Value| {
            (found != told).then(|| format!("{what} is\n  {found}\nand not\n  {told}"))
        };
        let code = match (self.code, &self.says) {
            (Some(code), _) => answer.code == code,
            (None, Some(_)) => answer.code >= 400,
            (None, None) => answer.code < 300,
        };
        if !code {
            return Some("not the code".to_owned());
        }
        let message = &answer.body["message"];
        if let Some(says) = &self.says
            && !is_said(message.as_str().unwrap_or_default(), says)
            && let Some(fault) = differ("the message", message, &json!(says))
        {
            return Some(fault);
        }
        if let Some(causes) = &self.causes {
            let told = causes.to_vec();
            if let Some(fault) = differ("the causes", &json!(answer.causes()), &json!(told)) {
                return Some(fault);
            }
        }
        for (pointer, told) in &self.has {
            let found = answer.body.pointer(pointer).unwrap_or(&Value::Null);
            if let Some(fault) = differ(pointer, found, told) {
                return Some(fault);
            }
        }
        if let Some(told) = &self.owners
            && let Some(fault) = differ("the owners", &owners(&answer.body), &json!(told))
        {
            return Some(fault);
        }
        if self.unchanged
            && let Some(fault) = differ("the object", &answer.body, before.unwrap_or(&Value::Null))
        {
            return Some(fault);
        }
        if let Some(told) = &self.warns {
            return differ("warnings", &json!(answer.warnings), &json!(told));
        }
        None
    }
}

/// Whether a message is as told, with a uid wherever `<uid>` is told.
fn is_said(message: &str, says: &str) -> bool {
    const LENGTH: usize = 36;
    let mut parts = says.split("<uid>");
    let begin = parts.next().unwrap_or_default();
    let rest = parts.try_fold(message.strip_prefix(begin), |rest, part| {
        let after = rest?.get(LENGTH..)?;
        Some(after.strip_prefix(part))
    });
    rest.flatten() == Some("")
}

/// The owners of an object: `manager operation [subresource]` with the paths of their fields.
///
/// A real cluster's controllers write too: what is theirs is no part of a story.
fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array();
    let mut owners = Map::new();
    for entry in entries.into_iter().flatten() {
        if entry["manager"] == "kube-controller-manager" {
            continue;
        }
        let words = ["manager", "operation", "subresource"].map(|key| entry[key].as_str());
        let words: Vec<&str> = words.into_iter().flatten().collect();
        let mut paths = Vec::new();
        leaves(&entry["fieldsV1"], "", &mut paths);
        paths.sort();
        owners.insert(words.join(" "), paths.join(" ").into());
    }
    owners.into()
}

fn leaves(fields: &Value, path: &str, found: &mut Vec<String>) {
    for (element, below) in fields.as_object().into_iter().flatten() {
        let element = element.strip_prefix("f:").unwrap_or(element);
        let path = format!("{path}/{element}");
        match below.as_object() {
            Some(below) if !below.is_empty() => leaves(&json!(below), &path, found),
            _ => found.push(path.trim_start_matches('/').to_owned()),
        }
    }
}
