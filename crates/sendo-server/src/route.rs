//! Finds the resource and the action that a path and a method name.
//!
//! A path at which nothing is served is answered with 404, a path that is served, but not with this
//! method, with 405. That is decided right after authorisation, before any other part of a
//! request is validated.

use std::sync::Arc;

use http::Method;
use sendo_apimachinery::Status;

use crate::access::authorise::Permit;
use crate::catalog::{Catalog, Resource};
use crate::read::answer::ApiResponse;
use crate::request::path::{Prefix, ResourcePath, Verb};

/// What a request on a resource is to do: the verb that was allowed, and on what.
///
/// There is no other way to an action than [`route`], and no other verb in it than
/// that of the [`Permit`]: path and method only decide whether it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    verb: Verb,
    subresource: Option<String>,
}

impl Action {
    /// What is to be done. Of a subresource, that is what the word means there.
    pub(crate) fn verb(&self) -> Verb {
        self.verb
    }

    /// The subresource that it is done on; `None` for the resource itself.
    pub(crate) fn subresource(&self) -> Option<&str> {
        self.subresource.as_deref()
    }
}

/// Why there is no route.
#[derive(Debug)]
pub(crate) enum NoRoute {
    /// The path is in an API, which answers with a Status.
    Status(Status),
    /// The path is not in any API.
    Page(ApiResponse),
}

impl From<Status> for NoRoute {
    fn from(status: Status) -> Self {
        NoRoute::Status(status)
    }
}

/// Finds the resource that a path names, and what is to be done there.
pub(crate) fn route(
    catalog: &Catalog,
    permit: &Permit,
    method: &Method,
    path: &ResourcePath,
) -> Result<(Arc<Resource>, Action), NoRoute> {
    let page = || NoRoute::Page(ApiResponse::page_not_found());
    let group = catalog.group(&path.group).ok_or_else(page)?;
    let found = catalog.find(&path.group, &path.version, &path.resource);
    let resource = found.ok_or_else(|| {
        if group.is_custom() {
            page()
        } else {
            NoRoute::Status(Status::no_such_resource())
        }
    })?;
    match &resource.custom {
        Some(_) => serves_custom(resource, permit.verb(), path)?,
        None => serves(resource, permit.verb(), method, path)?,
    }
    let action = Action {
        verb: permit.verb(),
        subresource: path.subresource.clone(),
    };
    Ok((Arc::clone(resource), action))
}

/// Whether something is done at a path of a built-in resource.
///
/// Kubernetes has a table of methods and paths for these, which `APIInstaller` in
/// k8s.io/apiserver (pkg/endpoints/installer.go) makes of what a kind's storage can do.
/// `HEAD` is in it only where a request is proxied.
fn serves(
    resource: &Resource,
    verb: Verb,
    method: &Method,
    path: &ResourcePath,
) -> Result<(), Status> {
    let empty = |part: &Option<String>| part.as_deref() == Some("");
    let in_namespace = path.namespace.is_some() && path.resource != "namespaces";
    let misplaced = if resource.is_namespaced() {
        // The collection of all namespaces is the only thing outside of one.
        !in_namespace && path.name.is_some()
    } else {
        in_namespace
    };
    let nameless = empty(&path.name);
    if misplaced || empty(&path.subresource) || nameless && path.subresource.is_none() {
        return Err(Status::no_such_resource());
    }
    match path.prefix {
        Some(Prefix::Watch) => return serves_old_watch(resource, method, path),
        Some(Prefix::Proxy) => return Err(Status::no_such_resource()),
        None => {}
    }
    if let Some(name) = &path.subresource {
        return serves_subresource(resource, name, verb, method, path);
    }
    let everywhere = resource.is_namespaced() && !in_namespace;
    let possible: &[Verb] = match &path.name {
        Some(_) => &[Verb::Get, Verb::Update, Verb::Patch, Verb::Delete],
        None if everywhere => &[Verb::List],
        None => &[Verb::List, Verb::Create, Verb::DeleteCollection],
    };
    let has = |verb: Verb| resource.facts.has_verb(verb.as_str());
    // A resource that only takes creations has no named paths at all.
    if !possible.iter().any(|verb| has(*verb)) {
        return Err(Status::no_such_resource());
    }
    // A watch is requested at the path of a list.
    let path_verb = match verb {
        Verb::Watch => Verb::List,
        other => other,
    };
    if method == Method::HEAD || !possible.contains(&path_verb) || !has(path_verb) {
        return Err(Status::method_not_allowed());
    }
    if !has(verb) {
        let resource = resource.group_resource();
        return Err(Status::method_not_supported(&resource, verb.as_str()));
    }
    Ok(())
}

fn serves_subresource(
    resource: &Resource,
    name: &str,
    verb: Verb,
    method: &Method,
    path: &ResourcePath,
) -> Result<(), Status> {
    let subresource = resource
        .facts
        .subresource(name)
        .ok_or_else(Status::no_such_resource)?;
    let is_proxy = name == "proxy";
    if !path.rest.is_empty() && !is_proxy {
        return Err(Status::no_such_resource());
    }
    // Without a name the verb is one of a collection.
    let object_verb = match verb {
        Verb::List | Verb::Watch => Verb::Get,
        Verb::DeleteCollection => Verb::Delete,
        other => other,
    };
    let has = subresource
        .verbs
        .iter()
        .any(|own| own == object_verb.as_str());
    let is_served = match *method {
        Method::HEAD | Method::OPTIONS => is_proxy,
        _ => has,
    };
    if !is_served {
        return Err(Status::method_not_allowed());
    }
    if path.name.as_deref() == Some("") {
        return Err(Status::bad_request("name must be provided"));
    }
    Ok(())
}

/// Whether one of the old paths of a built-in resource that begin with `watch` is served.
fn serves_old_watch(
    resource: &Resource,
    method: &Method,
    path: &ResourcePath,
) -> Result<(), Status> {
    if !resource.facts.has_verb("watch") || path.subresource.is_some() {
        return Err(Status::no_such_resource());
    }
    if method == Method::GET {
        Ok(())
    } else {
        Err(Status::method_not_allowed())
    }
}

/// Whether something is done at a path of a custom resource.
///
/// Kubernetes serves them by the verb alone, without a table of paths: what is
/// misplaced is answered with a 404 page, a verb of an object without one with "name must be provided". So an old path that begins
/// with `watch` is one to watch with any method. The rule is that of `crdHandler` in
/// k8s.io/apiextensions-apiserver (pkg/apiserver/customresource_handler.go).
fn serves_custom(resource: &Resource, verb: Verb, path: &ResourcePath) -> Result<(), NoRoute> {
    let is_set = |part: &Option<String>| part.as_deref().is_some_and(|part| !part.is_empty());
    let (in_namespace, named) = (is_set(&path.namespace), is_set(&path.name));
    let of_all = resource.is_namespaced() && matches!(verb, Verb::List | Verb::Watch);
    let misplaced = resource.is_namespaced() != in_namespace && !of_all;
    if misplaced || !path.rest.is_empty() && path.prefix != Some(Prefix::Proxy) {
        return Err(NoRoute::Page(ApiResponse::page_not_found()));
    }
    if let Some(name) = &path.subresource
        && resource.facts.subresource(name).is_none()
    {
        let object = path.name.as_deref().unwrap_or_default();
        let absent = Status::not_found(&resource.group_resource(), object);
        return Err(NoRoute::Status(absent));
    }
    let of_subresource = path.subresource.is_some();
    match verb {
        Verb::Update | Verb::Patch if !named => Err(NoRoute::Status(Status::bad_request(
            "name must be provided",
        ))),
        Verb::Get | Verb::Update | Verb::Patch => Ok(()),
        // A creation is of what its body names, whatever the path does.
        Verb::List | Verb::Watch | Verb::Create | Verb::Delete | Verb::DeleteCollection
            if !of_subresource =>
        {
            Ok(())
        }
        other => Err(NoRoute::Status(Status::method_not_supported(
            &resource.group_resource(),
            other.as_str(),
        ))),
    }
}
