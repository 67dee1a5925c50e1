//! The API server of any cluster, with objects as JSON values.

mod connect;
mod difference;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, anyhow, bail};
use http::{Method, Request};
use kube::Client;
use serde_json::Value;

pub(crate) use connect::{ClusterFlags, Connection};
pub(crate) use difference::field_differences;

/// The field manager of what this command applies.
const FIELD_MANAGER: &str = "sendo";

/// The API server.
pub(crate) struct Api {
    client: Client,
    /// The resources of each group and version that was asked about.
    resources: BTreeMap<String, Vec<Resource>>,
}

/// A resource that the server has.
#[derive(Clone, Debug)]
struct Resource {
    kind: String,
    plural: String,
    namespaced: bool,
}

/// Whether a request changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It does.
    Persist,
    /// The server checks it and answers, and that is all.
    DryRun,
}

/// What applying an object did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Created,
    Changed,
    Unchanged,
}

impl Applied {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Applied::Created => "created",
            Applied::Changed => "changed",
            Applied::Unchanged => "unchanged",
        }
    }
}

/// Whether fields of other managers are taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflicts {
    Refuse,
    Overwrite,
}

impl Api {
    pub(crate) fn new(client: Client) -> Self {
        Api {
            client,
            resources: BTreeMap::new(),
        }
    }

    /// The version, such as `v1.36.4`.
    pub(crate) async fn version(&self) -> Result<String> {
        let version = self.get("/version").await?.unwrap_or_default();
        Ok(text(&version, "/gitVersion").to_owned())
    }

    /// The path of an object; `None` if the server does not have its kind.
    pub(crate) async fn path(&mut self, object: &Value) -> Result<Option<String>> {
        let Some(list) = self.list_path(object).await? else {
            return Ok(None);
        };
        Ok(Some(format!("{list}/{}", text(object, "/metadata/name"))))
    }

    /// The path of the list that an object is in.
    async fn list_path(&mut self, object: &Value) -> Result<Option<String>> {
        let version = text(object, "/apiVersion");
        let Some(resource) = self.resource(version, text(object, "/kind")).await? else {
            return Ok(None);
        };
        let namespace = match (resource.namespaced, text(object, "/metadata/namespace")) {
            (false, _) => String::new(),
            (true, "") => "/namespaces/default".to_owned(),
            (true, name) => format!("/namespaces/{name}"),
        };
        let plural = resource.plural;
        Ok(Some(format!("{}{namespace}/{plural}", root(version))))
    }

    async fn resource(&mut self, version: &str, kind: &str) -> Result<Option<Resource>> {
        // What was not there before may be by now.
        let known = |resources: &Vec<Resource>| {
            resources
                .iter()
                .find(|resource| resource.kind == kind)
                .cloned()
        };
        if let Some(found) = self.resources.get(version).and_then(known) {
            return Ok(Some(found));
        }
        let Some(list) = self.get(&root(version)).await? else {
            return Ok(None);
        };
        let resources = list["resources"].as_array().into_iter().flatten();
        let resources: Vec<Resource> = resources
            .filter(|resource| !text(resource, "/name").contains('/'))
            .map(|resource| Resource {
                kind: text(resource, "/kind").to_owned(),
                plural: text(resource, "/name").to_owned(),
                namespaced: resource["namespaced"] == true,
            })
            .collect();
        let found = known(&resources);
        self.resources.insert(version.to_owned(), resources);
        Ok(found)
    }

    /// What is at a path; `None` if nothing is.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>> {
        match self.send(Method::GET, path, "application/json", None).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(refusal("read", path, error)),
        }
    }

    /// The objects of a list; none if the server does not have the list.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let list = self.get(path).await?.unwrap_or_default();
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// The objects of a list as a table for people; `None` if the server does not have the list.
    #[cfg(feature = "dev")]
    pub(crate) async fn table(&self, path: &str) -> Result<Option<Value>> {
        let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let request = Request::get(path).header(http::header::ACCEPT, accept);
        match self.client.request(request.body(Vec::new())?).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(refusal("read", path, error)),
        }
    }

    /// A page of text, such as a log.
    pub(crate) async fn page(&self, path: &str) -> Result<String> {
        let request = Request::get(path).body(Vec::new())?;
        let page = self.client.request_text(request).await;
        page.map_err(|error| refusal("read", path, error))
    }

    /// Creates an object, as reviews are.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value> {
        let sent = self
            .send(Method::POST, path, "application/json", Some(object))
            .await;
        sent.map_err(|error| refusal("create", path, error))
    }

    /// Applies an object at its path: what it does not say stays with whoever said it.
    /// Returns it as it is then, with what was there before.
    pub(crate) async fn apply(
        &self,
        path: &str,
        object: &Value,
        conflicts: Conflicts,
        effect: Effect,
    ) -> Result<(Applied, Value, Value)> {
        let before = self.get(path).await?.unwrap_or_default();
        let force = conflicts == Conflicts::Overwrite;
        let dry_run = match effect {
            Effect::Persist => "",
            Effect::DryRun => "&dryRun=All",
        };
        let query = format!(
            "{path}?fieldManager={FIELD_MANAGER}&force={force}&fieldValidation=Strict{dry_run}"
        );
        let content = "application/apply-patch+yaml";
        let after = match self
            .send(Method::PATCH, &query, content, Some(object))
            .await
        {
            Ok(after) => after,
            Err(kube::Error::Api(status)) if status.code == 409 && !force => bail!(
                "{} is not changed: {}; --force-conflicts takes these fields over",
                name_of(object),
                status.message
            ),
            Err(error) => {
                return Err(refusal("apply", path, error).context(name_of(object)));
            }
        };
        let version = |object: &Value| object.pointer("/metadata/resourceVersion").cloned();
        let applied = match version(&before) {
            None => Applied::Created,
            // A dry run counts the version up too, so what counts is whether a field differs.
            before_version if effect == Effect::Persist && before_version == version(&after) => {
                Applied::Unchanged
            }
            _ if field_differences(&before, &after).is_empty() => Applied::Unchanged,
            _ => Applied::Changed,
        };
        Ok((applied, before, after))
    }

    /// Changes an object by a merge patch.
    #[cfg(feature = "dev")]
    pub(crate) async fn merge(&self, path: &str, change: &Value) -> Result<Value> {
        let content = "application/merge-patch+json";
        let sent = self.send(Method::PATCH, path, content, Some(change)).await;
        sent.map_err(|error| refusal("change", path, error))
    }

    /// Deletes what is at a path; whether there was anything.
    pub(crate) async fn delete(&self, path: &str) -> Result<bool> {
        let query = format!("{path}?propagationPolicy=Background");
        match self
            .send(Method::DELETE, &query, "application/json", None)
            .await
        {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(refusal("delete", path, error)),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Option<&Value>,
    ) -> Result<Value, kube::Error> {
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content)
            .header(http::header::ACCEPT, "application/json")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }
}

/// The text at a JSON pointer, or none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// An object for people: `Deployment bar-system/bar`.
pub(crate) fn name_of(object: &Value) -> String {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    match text(object, "/metadata/namespace") {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// The path of a group and version.
fn root(version: &str) -> String {
    match version.contains('/') {
        true => format!("/apis/{version}"),
        false => format!("/api/{version}"),
    }
}

/// An error of the server with what can be done about it.
fn refusal(verb: &str, path: &str, error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => match status.code {
            401 => anyhow!("the cluster does not know you: {}; log in to it again, or choose another user with --context", status.message),
            403 => anyhow!("you may not {verb} this: {}; ask whoever runs the cluster for the right, or choose another user with --context", status.message),
            _ => anyhow!("the cluster refuses: {}", status.message),
        },
        other => anyhow::Error::new(other)
            .context(format!("the cluster does not answer ({verb} {path}): is it running, and is it the right one? --kubeconfig FILE and --context NAME choose another")),
    }
}

/// The values of a stream of YAML documents; empty ones are left out.
pub(crate) fn yaml_documents(yaml: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)
        .map_err(|error| anyhow!("{error}"))
        .context("what is to be applied is no YAML")?;
    let mut objects = Vec::new();
    for document in documents {
        match &document["items"] {
            Value::Array(items) if text_is_list(&document) => objects.extend(items.iter().cloned()),
            _ if document.is_null() => {}
            _ => objects.push(document),
        }
    }
    for object in &objects {
        if text(object, "/kind").is_empty() || text(object, "/metadata/name").is_empty() {
            bail!(
                "what is to be applied has a document that is no object with a kind and a name: {object}"
            );
        }
    }
    Ok(objects)
}

fn text_is_list(document: &Value) -> bool {
    text(document, "/kind").ends_with("List")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_read_one_by_one_and_from_lists() {
        let yaml = "---\nkind: A\nmetadata: {name: a}\n---\n---\nkind: List\nitems:\n- {kind: B, metadata: {name: b}}\n";
        let names: Vec<_> = yaml_documents(yaml).unwrap().iter().map(name_of).collect();
        assert_eq!(names, ["A a", "B b"]);
        let error = yaml_documents("a: [").unwrap_err().to_string();
        assert!(error.contains("no YAML"), "{error}");
        let error = yaml_documents("a: 1").unwrap_err().to_string();
        assert!(error.contains("no object"), "{error}");
    }

    #[test]
    fn objects_are_named_with_their_namespace() {
        let object = json!({"kind": "Deployment", "metadata": {"name": "a", "namespace": "b"}});
        assert_eq!(name_of(&object), "Deployment b/a");
    }
}
