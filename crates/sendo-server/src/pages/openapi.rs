//! Serves the OpenAPI documents `/openapi/v3` and `/openapi/v2`, which describe what is served.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use sendo_apimachinery::openapi::{self, CustomResource, Publisher};
use sendo_apimachinery::resources::Resources;
use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::catalog::remote::RemoteVersion;
use crate::pages::openapi_descriptions::Descriptions;
use crate::read::answer::{self, ApiResponse};
use crate::request::Request;
use crate::request::negotiate;
use crate::state::Server;

const JSON: &str = "application/json";

/// Answers a path below `/openapi/v3`; empty for the index.
pub(crate) fn answer(server: &Server, request: &Request, path: &str) -> ApiResponse {
    let resources = &server.resources;
    let catalog = server.catalog();
    let publisher = Publisher {
        types: &server.types,
        resources,
        describe: &|_, _| None,
    };
    if path.is_empty() {
        let built_in = publisher.paths().into_iter().map(|path| {
            let hash = publisher.hash(&path);
            (path, hash)
        });
        let custom = custom_versions(&catalog);
        let mut index = openapi::index(built_in.chain(custom));
        for remote in catalog.remote() {
            for (path, url) in own_documents(remote) {
                index["paths"][path] = json!({"serverRelativeURL": url});
            }
        }
        return ApiResponse::Text(StatusCode::OK, index.to_string());
    }
    if let Some((_, hash)) = custom_versions(&catalog).find(|(own, _)| own == path) {
        return document(server, request, path, hash, || {
            custom(server, &catalog, path)
        });
    }
    if !publisher.paths().iter().any(|own| own == path) {
        return ApiResponse::Empty(StatusCode::NOT_FOUND);
    }
    let hash = publisher.hash(path);
    document(server, request, path, hash, || {
        built_in(server, resources, path)
    })
}

/// The documents of another server, each with its URL, that are about the version it serves.
/// Others, such as that of `/version`, are this server's own.
fn own_documents(remote: &RemoteVersion) -> impl Iterator<Item = (&str, &str)> {
    let path = remote.discovery_path();
    let urls = remote.documents.openapi_urls.iter();
    urls.filter(move |(own, _)| path.trim_start_matches('/') == own.as_str())
        .map(|(path, url)| (path.as_str(), url.as_str()))
}

/// The version of another server that a path below `/openapi/v3/` is about.
pub(crate) fn remote_of<'a>(catalog: &'a Catalog, path: &str) -> Option<&'a Arc<RemoteVersion>> {
    let mut remote = catalog.remote().iter();
    remote.find(|remote| own_documents(remote).any(|(own, _)| own == path))
}

/// What a document of version 2 is written in.
#[derive(Clone, Copy)]
enum Written {
    Json,
    Protobuf,
}

/// The media types that version 2 is requested with, and what each gets; in order
/// of preference for those who take anything.
const VERSION_TWO: [(&str, Written); 3] = [
    ("json", Written::Json),
    (
        "com.github.proto-openapi.spec.v2@v1.0+protobuf",
        Written::Protobuf,
    ),
    (
        "com.github.proto-openapi.spec.v2.v1.0+protobuf",
        Written::Protobuf,
    ),
];

/// The media type of version 2 in protobuf; the older one, with an `@`, is none
/// that HTTP knows.
const VERSION_TWO_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Answers `/openapi/v2`: all documents as one of version 2.
///
/// `about` is what `/version` says.
pub(crate) fn version_two(server: &Server, request: &Request, about: &Value) -> ApiResponse {
    let accept = request.accept().filter(|accept| !accept.is_empty());
    let accept = accept.as_deref().unwrap_or("*/*");
    let Some(written) = negotiate::first_of(accept, &VERSION_TWO) else {
        return ApiResponse::Empty(StatusCode::NOT_ACCEPTABLE);
    };
    let resources = &server.resources;
    let catalog = server.catalog();
    let publisher = Publisher {
        types: &server.types,
        resources,
        describe: &|_, _| None,
    };
    let paths = publisher.paths();
    let custom_paths: Vec<(String, String)> = custom_versions(&catalog).collect();
    let hashes: Vec<String> = paths.iter().map(|path| publisher.hash(path)).collect();
    let parts = hashes
        .iter()
        .chain(custom_paths.iter().map(|(_, hash)| hash));
    let elsewhere = catalog.remote().iter();
    let elsewhere = elsewhere.flat_map(|remote| own_documents(remote).map(|(_, url)| url));
    let parts = parts.map(String::as_str).chain(elsewhere);
    let parts: Vec<&[u8]> = parts.map(str::as_bytes).collect();
    let tag = openapi::hash(&parts);
    let json = server.documents.get_or_make("v2", &tag, || {
        let built_in = paths
            .iter()
            .filter_map(|path| built_in(server, resources, path));
        let custom = custom_paths
            .iter()
            .filter_map(|(path, _)| custom(server, &catalog, path));
        let documents = built_in
            .chain(custom)
            .filter_map(|bytes| serde_json::from_slice(&bytes).ok());
        let elsewhere = catalog.remote().iter();
        let elsewhere = elsewhere.filter_map(|remote| remote.documents.openapi.as_deref().cloned());
        let documents = documents.chain(elsewhere);
        let version = about["gitVersion"].as_str().unwrap_or_default();
        Some(answer::to_bytes(&openapi::version_two(documents, version)))
    });
    let (media_type, bytes) = match written {
        Written::Json => (JSON, json),
        Written::Protobuf => {
            let bytes = server.documents.get_or_make("v2 protobuf", &tag, || {
                let document = serde_json::from_slice(&json?).ok()?;
                Some(openapi::version_two_binary(&document).into())
            });
            (VERSION_TWO_PROTOBUF, bytes)
        }
    };
    match bytes {
        Some(bytes) => ApiResponse::Tagged {
            tag,
            media_type,
            bytes,
        },
        None => ApiResponse::Empty(StatusCode::NOT_FOUND),
    }
}

/// A document, unless the client requests it by a hash that it no longer has.
fn document(
    server: &Server,
    request: &Request,
    path: &str,
    hash: String,
    make: impl FnOnce() -> Option<Bytes>,
) -> ApiResponse {
    if request
        .query
        .first("hash")
        .is_some_and(|requested| requested != hash)
    {
        return ApiResponse::Redirect(format!("/openapi/v3/{path}?hash={hash}"));
    }
    match server.documents.get_or_make(path, &hash, make) {
        Some(bytes) => ApiResponse::Tagged {
            tag: hash,
            media_type: JSON,
            bytes,
        },
        None => ApiResponse::Empty(StatusCode::NOT_FOUND),
    }
}

fn built_in(server: &Server, resources: &Resources, path: &str) -> Option<Bytes> {
    let of_document = resources.iter().filter(|resource| {
        let root = if resource.group.is_empty() {
            "api"
        } else {
            "apis"
        };
        path == format!("{root}/{}", resource.api_version())
    });
    let descriptions = Descriptions::from_resources(of_document);
    let describe = |kind: &str, field: Option<&str>| descriptions.get(kind, field);
    let publisher = Publisher {
        types: &server.types,
        resources,
        describe: &describe,
    };
    Some(answer::to_bytes(&publisher.document(path)?))
}

/// The paths of the documents of custom resources, each with its hash.
fn custom_versions(catalog: &Catalog) -> impl Iterator<Item = (String, String)> {
    let groups = catalog.groups().filter(|group| group.is_custom());
    groups.flat_map(|group| {
        group.versions().map(|version| {
            let resources = group.resources(version).unwrap_or_default();
            let said: Vec<String> = resources
                .iter()
                .map(|resource| {
                    let published = resource.custom.as_ref().map(|custom| &custom.published);
                    format!("{:?} {}", resource.facts, published.unwrap_or(&Value::Null))
                })
                .collect();
            let parts: Vec<&[u8]> = said.iter().map(String::as_bytes).collect();
            (
                format!("apis/{}/{version}", group.name),
                openapi::hash(&parts),
            )
        })
    })
}

fn custom(server: &Server, catalog: &Catalog, path: &str) -> Option<Bytes> {
    let (group, version) = path.strip_prefix("apis/")?.split_once('/')?;
    let served = catalog.group(group)?.resources(version)?;
    let resources: Vec<CustomResource<'_>> = served
        .iter()
        .filter_map(|resource| {
            let custom = resource.custom.as_ref()?;
            Some(CustomResource {
                resource: &resource.facts,
                list_kind: &resource.list_kind,
                schema: &custom.published,
            })
        })
        .collect();
    let descriptions = Descriptions::from_resources(served.iter().map(|resource| &resource.facts));
    let describe = |kind: &str, field: Option<&str>| descriptions.get(kind, field);
    let document = openapi::custom_document(&server.types, &describe, group, version, &resources);
    Some(answer::to_bytes(&document))
}
