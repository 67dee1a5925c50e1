//! Asks the server of an APIService what it serves: for discovery, and for OpenAPI.
//!
//! A server that has no aggregated discovery is asked for the resources of the version as old
//! clients do. One that has no OpenAPI of version 3 is left out of both OpenAPI documents.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/kube-aggregator/pkg/apiserver/handler_discovery.go`: `fetchFreshDiscoveryForService`, `syncAPIService`
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/installer.go`: `ConvertGroupVersionIntoToDiscovery`
//! - `staging/src/k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator/aggregator.go`: `updateAPIServiceSpecLocked`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::aggregator::{Get, Route, Versions};
use crate::catalog::remote::{Documents, RemoteVersion};
use crate::request::user::{MASTERS, User};
use crate::state::Server;

const DISCOVERY_LIMIT: Duration = Duration::from_secs(5);
const OPENAPI_LIMIT: Duration = Duration::from_secs(60);

const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// Asks the server of a version about it. What it does not say now stays as it was.
///
/// # Errors
/// Why it does not say what its resources are.
pub(super) async fn fetch(
    server: &Server,
    remote: &RemoteVersion,
) -> (Documents, Result<(), String>) {
    let mut documents = remote.documents.clone();
    let fetched = update(server, remote, &mut documents).await;
    documents.is_fresh = fetched.is_ok();
    (documents, fetched)
}

async fn update(
    server: &Server,
    remote: &RemoteVersion,
    documents: &mut Documents,
) -> Result<(), String> {
    if !remote.is_available {
        return Err("it is not available".to_owned());
    }
    documents.resources = resources(server, remote).await?.map(Arc::new);
    if let Err(why) = openapi(server, remote, documents).await {
        let api_service = remote.api_service();
        tracing::debug!(
            api_service,
            why,
            "another server gives no OpenAPI documents"
        );
    }
    Ok(())
}

/// The resources of a version, as aggregated discovery lists them; `None` if the server lists
/// none.
async fn resources(server: &Server, remote: &RemoteVersion) -> Result<Option<Value>, String> {
    let user = User::new("system:kube-aggregator", [MASTERS]);
    let response = get(server, remote, &user, "/apis", AGGREGATED, DISCOVERY_LIMIT).await?;
    match response.status() {
        StatusCode::SERVICE_UNAVAILABLE => Err("it answers with 503".to_owned()),
        StatusCode::OK if is_aggregated(&response) => {
            let list = parse(response.body())?;
            Ok(version_in(&list, &remote.group, &remote.version))
        }
        _ => old_resources(server, remote).await.map(Some),
    }
}

/// Whether a response is a document of aggregated discovery.
fn is_aggregated(response: &Response<Bytes>) -> bool {
    let media_type = response.headers().get(CONTENT_TYPE);
    let media_type = media_type.and_then(|value| value.to_str().ok());
    let parameters: Vec<&str> = media_type
        .unwrap_or_default()
        .split(';')
        .map(str::trim)
        .collect();
    parameters.contains(&"g=apidiscovery.k8s.io")
        && parameters.contains(&"as=APIGroupDiscoveryList")
        && (parameters.contains(&"v=v2") || parameters.contains(&"v=v2beta1"))
}

/// The resources of a version in a document of aggregated discovery.
fn version_in(list: &Value, group: &str, version: &str) -> Option<Value> {
    let items = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let groups = items(&list["items"]);
    let group = groups
        .iter()
        .find(|own| own["metadata"]["name"].as_str().unwrap_or_default() == group)?;
    let versions = items(&group["versions"]);
    let found = versions.iter().find(|own| own["version"] == version)?;
    let mut resources = items(&found["resources"]);
    for resource in &mut resources {
        add_kind(resource);
        let subresources = resource.get_mut("subresources");
        for subresource in subresources
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            add_kind(subresource);
        }
    }
    (!resources.is_empty()).then_some(Value::Array(resources))
}

/// Some clients cannot do without the kind of a response.
fn add_kind(resource: &mut Value) {
    if resource["responseKind"].is_null() && resource.is_object() {
        resource["responseKind"] = kind("", "", "");
    }
}

fn kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// The resources of a version, from the list that old clients ask for.
async fn old_resources(server: &Server, remote: &RemoteVersion) -> Result<Value, String> {
    let user = User::new("system:kube-aggregator", [] as [&str; 0]);
    let path = remote.discovery_path();
    let response = get(server, remote, &user, &path, JSON, DISCOVERY_LIMIT).await?;
    if response.status() != StatusCode::OK {
        let code = response.status().as_u16();
        return Err(format!("it answers {path} with {code}"));
    }
    convert(&parse(response.body())?)
}

/// An `APIResourceList` as aggregated discovery has it.
fn convert(list: &Value) -> Result<Value, String> {
    let resources = list["resources"].as_array();
    let resources = resources.ok_or("its list of resources is none")?;
    let mut converted: Vec<Value> = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let scope = |resource: &Value| match resource["namespaced"] == true {
        true => "Namespaced",
        false => "Cluster",
    };
    let response_kind = |resource: &Value| {
        let [group, version, name] = ["group", "version", "kind"].map(|key| text(&resource[key]));
        kind(&group, &version, &name)
    };
    for resource in resources {
        let name = text(&resource["name"]);
        if name.contains('/') {
            continue;
        }
        let mut own = Map::new();
        own.insert("resource".to_owned(), name.into());
        own.insert("responseKind".to_owned(), response_kind(resource));
        own.insert("scope".to_owned(), scope(resource).into());
        own.insert(
            "singularResource".to_owned(),
            text(&resource["singularName"]).into(),
        );
        for list in ["verbs", "shortNames", "categories"] {
            if let Some(items) = resource.get(list).filter(|items| items.is_array()) {
                own.insert(list.to_owned(), items.clone());
            }
        }
        converted.push(Value::Object(own));
    }
    for resource in resources {
        let name = text(&resource["name"]);
        let Some((parent, subresource)) = name.split_once('/') else {
            continue;
        };
        let at = converted.iter().position(|own| own["resource"] == parent);
        let at = at.unwrap_or_else(|| {
            let none = json!({"resource": parent, "responseKind": kind("", "", ""), "scope": scope(resource), "singularResource": "", "verbs": []});
            converted.push(none);
            converted.len() - 1
        });
        if converted[at]["scope"] != scope(resource) {
            return Err(format!(
                "{parent} and its subresource {subresource} differ in scope"
            ));
        }
        let own = json!({
            "subresource": subresource,
            "responseKind": response_kind(resource),
            "verbs": resource.get("verbs").cloned().unwrap_or_else(|| json!([])),
        });
        match converted[at]
            .get_mut("subresources")
            .and_then(Value::as_array_mut)
        {
            Some(subresources) => subresources.push(own),
            None => converted[at]["subresources"] = json!([own]),
        }
    }
    Ok(Value::Array(converted))
}

/// Asks for the OpenAPI documents of version 3.
async fn openapi(
    server: &Server,
    remote: &RemoteVersion,
    documents: &mut Documents,
) -> Result<(), String> {
    let user = User::new("system:aggregator", [] as [&str; 0]);
    let response = get(server, remote, &user, "/openapi/v3", JSON, OPENAPI_LIMIT).await?;
    if response.status() != StatusCode::OK {
        documents.openapi_urls.clear();
        documents.openapi = None;
        return Err(format!(
            "it answers /openapi/v3 with {}",
            response.status().as_u16()
        ));
    }
    let urls = openapi_urls(&parse(response.body())?);
    let own = remote.discovery_path();
    let own = own.trim_start_matches('/');
    let is_known = documents.openapi.is_some();
    if is_known && urls.get(own) == documents.openapi_urls.get(own) {
        documents.openapi_urls = urls;
        return Ok(());
    }
    documents.openapi = match urls.get(own) {
        None => None,
        Some(url) => {
            let response = get(server, remote, &user, url, JSON, OPENAPI_LIMIT).await?;
            let is_there = response.status() == StatusCode::OK;
            is_there
                .then(|| parse(response.body()))
                .transpose()?
                .map(Arc::new)
        }
    };
    documents.openapi_urls = urls;
    Ok(())
}

fn openapi_urls(index: &Value) -> BTreeMap<String, String> {
    let paths = index["paths"].as_object().into_iter().flatten();
    let paths = paths.filter_map(|(path, item)| {
        let url = item["serverRelativeURL"].as_str()?;
        Some((path.clone(), url.to_owned()))
    });
    paths.collect()
}

async fn get(
    server: &Server,
    remote: &RemoteVersion,
    user: &User,
    path: &str,
    accept: &'static str,
    limit: Duration,
) -> Result<Response<Bytes>, String> {
    let route = Route::to(&server.outbound, &remote.backend, Versions::All).await;
    let route = route.map_err(|error| error.to_string())?;
    let get = Get {
        path,
        accept,
        user,
        limit,
    };
    get.send(&route, server.world.clock()).await
}

fn parse(bytes: &Bytes) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_list_becomes_resources_with_their_subresources() {
        let list = json!({"resources": [
            {"name": "things/status", "namespaced": true, "kind": "Thing", "verbs": ["get"]},
            {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get", "list"], "shortNames": ["t"]},
            {"name": "orphans/scale", "namespaced": false, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]},
        ]});
        let none = json!({"group": "", "version": "", "kind": ""});
        let thing = json!({"group": "", "version": "", "kind": "Thing"});
        assert_eq!(
            convert(&list).unwrap(),
            json!([
                {"resource": "things", "responseKind": thing, "scope": "Namespaced", "singularResource": "thing",
                    "verbs": ["get", "list"], "shortNames": ["t"],
                    "subresources": [{"subresource": "status", "responseKind": thing, "verbs": ["get"]}]},
                {"resource": "orphans", "responseKind": none, "scope": "Cluster", "singularResource": "", "verbs": [],
                    "subresources": [{"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}, "verbs": ["get"]}]},
            ])
        );
        let mixed = json!({"resources": [
            {"name": "things", "namespaced": true, "verbs": []},
            {"name": "things/status", "namespaced": false, "verbs": []},
        ]});
        assert!(convert(&mixed).is_err());
        assert!(convert(&json!({"kind": "Status"})).is_err());
    }

    #[test]
    fn a_version_is_found_in_aggregated_discovery() {
        let list = json!({"items": [{"metadata": {"name": "a.example"}, "versions": [
            {"version": "v1", "resources": [{"resource": "things", "subresources": [{"subresource": "status"}]}]},
            {"version": "v2"},
        ]}]});
        let none = json!({"group": "", "version": "", "kind": ""});
        assert_eq!(
            version_in(&list, "a.example", "v1").unwrap(),
            json!([{"resource": "things", "responseKind": none, "subresources": [{"subresource": "status", "responseKind": none}]}])
        );
        assert_eq!(version_in(&list, "a.example", "v2"), None);
        assert_eq!(version_in(&list, "b.example", "v1"), None);
    }
}
