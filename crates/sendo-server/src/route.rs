//! From a path and a method to what is to be done.
//!
//! A path that nothing is served at is not found; a path that is served, but
//! not with this method, is a method not allowed. That is decided before
//! anything else of a request is looked at, permission apart.

use std::sync::Arc;

use http::Method;
use sendo_apimachinery::Status;

use crate::answer::Answer;
use crate::path::ResourcePath;
use crate::resource::{Catalog, Resource};

/// What a request on a resource is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// Whatever the method means on that subresource.
    Subresource(String),
}

/// Why there is no route.
#[derive(Debug)]
pub(crate) enum Dead {
    /// A Status tells.
    End(Status),
    /// The path is not in any API.
    Page(Answer),
}

impl From<Status> for Dead {
    fn from(status: Status) -> Self {
        Dead::End(status)
    }
}

/// Finds the resource that a path names and what `method` does there.
pub(crate) fn route(
    catalog: &Catalog,
    method: &Method,
    path: &ResourcePath,
) -> Result<(Arc<Resource>, Action), Dead> {
    if catalog.is_remote(&path.group, &path.version) {
        return Err(Dead::Page(Answer::unavailable()));
    }
    let page = || Dead::Page(Answer::page_not_found());
    let group = catalog.group(&path.group).ok_or_else(page)?;
    let found = catalog.find(&path.group, &path.version, &path.resource);
    let resource = found.ok_or_else(|| {
        if group.is_custom() {
            page()
        } else {
            Dead::End(Status::no_such_resource())
        }
    })?;
    let action = match &resource.custom {
        Some(_) => custom_action(resource, method, path)?,
        None => action(resource, method, path)?,
    };
    Ok((Arc::clone(resource), action))
}

fn action(resource: &Resource, method: &Method, path: &ResourcePath) -> Result<Action, Status> {
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
    if path.watch {
        return watch_action(resource, method, path);
    }
    if let Some(name) = &path.subresource {
        let subresource = resource
            .facts
            .subresource(name)
            .ok_or_else(Status::no_such_resource)?;
        let proxied = name == "proxy";
        if !path.rest.is_empty() && !proxied {
            return Err(Status::no_such_resource());
        }
        let verb = match method.as_str() {
            "GET" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "",
        };
        return if !subresource.verbs.iter().any(|own| own == verb) {
            Err(Status::method_not_allowed())
        } else if nameless {
            Err(Status::bad_request("name must be provided"))
        } else {
            Ok(Action::Subresource(name.clone()))
        };
    }
    let everywhere = resource.is_namespaced() && !in_namespace;
    let table: &[(&str, &str, Action)] = match &path.name {
        Some(_) => &[
            ("GET", "get", Action::Get),
            ("PUT", "update", Action::Update),
            ("PATCH", "patch", Action::Patch),
            ("DELETE", "delete", Action::Delete),
        ],
        None if everywhere => &[("GET", "list", Action::List)],
        None => &[
            ("GET", "list", Action::List),
            ("POST", "create", Action::Create),
            ("DELETE", "deletecollection", Action::DeleteCollection),
        ],
    };
    let mut served = table
        .iter()
        .filter(|(_, verb, _)| resource.facts.has_verb(verb))
        .peekable();
    // A resource that only takes creations has no named paths at all.
    if served.peek().is_none() {
        return Err(Status::no_such_resource());
    }
    let found = served.find(|(own, _, _)| *own == method.as_str());
    found
        .map(|(_, _, action)| action.clone())
        .ok_or_else(Status::method_not_allowed)
}

/// What a request on a custom resource does.
///
/// Kubernetes serves them by the verb alone, without a table of paths: what is
/// misplaced is no page, what is asked of nothing lacks a name.
fn custom_action(
    resource: &Resource,
    method: &Method,
    path: &ResourcePath,
) -> Result<Action, Dead> {
    let told = |part: &Option<String>| part.as_deref().is_some_and(|part| !part.is_empty());
    let (in_namespace, named) = (told(&path.namespace), told(&path.name));
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let read_all = !in_namespace && !named && reads;
    let misplaced =
        resource.is_namespaced() != in_namespace && !(resource.is_namespaced() && read_all);
    if misplaced || !path.rest.is_empty() {
        return Err(Dead::Page(Answer::page_not_found()));
    }
    let nameless = || Dead::End(Status::bad_request("name must be provided"));
    let unsupported = |verb: &str| {
        Dead::End(Status::method_not_supported(
            &resource.group_resource(),
            verb,
        ))
    };
    if let Some(name) = &path.subresource {
        if resource.facts.subresource(name).is_none() {
            let object = path.name.as_deref().unwrap_or_default();
            return Err(Dead::End(Status::not_found(
                &resource.group_resource(),
                object,
            )));
        }
        return match method.as_str() {
            "GET" | "HEAD" if !named => Err(unsupported("list")),
            "PUT" | "PATCH" if !named => Err(nameless()),
            "DELETE" if !named => Err(unsupported("deletecollection")),
            "GET" | "HEAD" | "PUT" | "PATCH" => Ok(Action::Subresource(name.clone())),
            "POST" => Err(unsupported("create")),
            "DELETE" => Err(unsupported("delete")),
            _ => Err(unsupported("")),
        };
    }
    match method.as_str() {
        _ if reads && path.watch => Ok(Action::Watch),
        _ if reads && named => Ok(Action::Get),
        _ if reads => Ok(Action::List),
        // A POST creates what its body names, whatever the path does.
        "POST" => Ok(Action::Create),
        "PUT" if named => Ok(Action::Update),
        "PATCH" if named => Ok(Action::Patch),
        "PUT" | "PATCH" => Err(nameless()),
        "DELETE" if named => Ok(Action::Delete),
        "DELETE" => Ok(Action::DeleteCollection),
        _ => Err(unsupported("")),
    }
}

fn watch_action(
    resource: &Resource,
    method: &Method,
    path: &ResourcePath,
) -> Result<Action, Status> {
    if !resource.facts.has_verb("watch") || path.subresource.is_some() {
        return Err(Status::no_such_resource());
    }
    if method == Method::GET {
        Ok(Action::Watch)
    } else {
        Err(Status::method_not_allowed())
    }
}
