//! Serves paths that name no resource: discovery, OpenAPI, version, health, OpenID keys.

pub(crate) mod discovery;
pub(crate) mod health;
mod metrics;
pub(crate) mod openapi;
pub(crate) mod openapi_descriptions;
mod openid;

use http::{Method, StatusCode};
use sendo_apimachinery::schema::Types;
use sendo_apimachinery::{Status, protobuf};
use serde_json::{Value, json};

use crate::aggregator::forward;
use crate::catalog::Catalog;
use crate::pages::discovery::aggregated::{self, Half};
use crate::read::answer::{self, ApiResponse};
use crate::read::yaml;
use crate::request::Request;
use crate::request::negotiate::{self, Discovery, Encoding, Form, Gate, Refusal};
use crate::state::Server;

/// Media types that documents come in, as refusals list them.
const DOCUMENTS: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// Answers a path that names no resource.
pub(crate) async fn answer(server: &Server, request: &mut Request) -> Result<ApiResponse, Status> {
    if let Some(answer) = health::health(server, request) {
        return Ok(answer);
    }
    let catalog = server.catalog();
    let path = request.path.clone();
    if let Some(document) = path.strip_prefix("/openapi/") {
        let elsewhere = document.strip_prefix("v3/");
        if let Some(remote) = elsewhere.and_then(|path| openapi::remote_of(&catalog, path)) {
            return forward::forward(server, request, remote).await;
        }
        return Ok(openapi_page(server, request, document));
    }
    // Of the documents of groups, only those of one have slashes to spare.
    if path.starts_with("//") || path.starts_with("/apis//") {
        return Ok(ApiResponse::page_not_found());
    }
    let parts: Vec<&str> = path.trim_end_matches('/').split('/').skip(1).collect();
    match parts.as_slice() {
        [] => Ok(ApiResponse::document(&paths(&catalog))),
        ["metrics"] => metrics::answer(server, request).await,
        ["version"] => {
            get_only(request)?;
            json_only(request)?;
            Ok(ApiResponse::document(&version()))
        }
        ["api"] => {
            get_only(request)?;
            let accept = request.accept().unwrap_or_default();
            if !accept.is_empty() && !negotiate::names(&accept, &DOCUMENTS) {
                return Err(Status::not_acceptable(&DOCUMENTS));
            }
            top(&server.types, request, &catalog, Half::Core)
        }
        ["apis"] => top(&server.types, request, &catalog, Half::Named),
        ["api", version] => of_version(request, &catalog, "", version),
        ["apis", group] => match discovery::group(&catalog, group) {
            Some(document) => legacy(request, Gate::Open, &document),
            None => Ok(ApiResponse::page_not_found()),
        },
        ["apis", group, version] => of_version(request, &catalog, group, version),
        [".well-known", "openid-configuration"] => openid::configuration(server, request).await,
        ["openid", "v1", "jwks"] => openid::keys(server, request).await,
        ["version", ..]
        | [".well-known", "openid-configuration", ..]
        | ["openid", "v1", "jwks", ..] => Err(Status::no_such_resource()),
        _ => Ok(ApiResponse::page_not_found()),
    }
}

/// What is below `/openapi/`, where every slash counts.
fn openapi_page(server: &Server, request: &mut Request, document: &str) -> ApiResponse {
    match (document, document.strip_prefix("v3/")) {
        ("v2", _) => openapi::version_two(server, request, &version()),
        ("v3", _) => openapi::answer(server, request, ""),
        (_, Some("")) => openapi::answer(server, request, "/"),
        (_, Some(path)) => openapi::answer(server, request, path),
        _ => ApiResponse::page_not_found(),
    }
}

fn get_only(request: &Request) -> Result<(), Status> {
    if request.method == Method::GET {
        Ok(())
    } else {
        Err(Status::method_not_allowed())
    }
}

fn json_only(request: &Request) -> Result<(), Status> {
    let accept = request.accept().unwrap_or_default();
    match accept.is_empty() || negotiate::names(&accept, &DOCUMENTS[..1]) {
        true => Ok(()),
        false => Err(Status::not_acceptable(&DOCUMENTS[..1])),
    }
}

/// `/api` and `/apis`, aggregated if the client accepts that.
fn top(
    types: &Types,
    request: &mut Request,
    catalog: &Catalog,
    half: Half,
) -> Result<ApiResponse, Status> {
    match negotiate::discovery(request.accept().as_deref()) {
        Some(Discovery::Aggregated(encoding)) => {
            let document = aggregated::document(catalog, half);
            let decoded = || serde_json::to_value(&document).expect("it is JSON");
            let bytes = match encoding {
                Encoding::Json => answer::to_bytes(&document),
                Encoding::Yaml => yaml::write(&decoded()).into(),
                Encoding::Protobuf => protobuf::encode(types, &decoded())
                    .expect("discovery has messages")
                    .into(),
            };
            let media_type = aggregated::media_type(encoding);
            Ok(ApiResponse::Typed(StatusCode::OK, media_type, bytes))
        }
        Some(Discovery::Legacy(encoding)) => {
            request.form = Form {
                encoding,
                ..Form::JSON
            };
            Ok(ApiResponse::document(&match half {
                Half::Core => discovery::core_versions(catalog, request.header(http::header::HOST)),
                Half::Named => discovery::groups(catalog),
            }))
        }
        None => Err(Status::not_acceptable_parameters(&DOCUMENTS)),
    }
}

fn of_version(
    request: &mut Request,
    catalog: &Catalog,
    group: &str,
    version: &str,
) -> Result<ApiResponse, Status> {
    let Some(group) = catalog.group(group) else {
        return Ok(ApiResponse::page_not_found());
    };
    let Some(document) = discovery::resources(group, version) else {
        return if group.is_custom() {
            Ok(ApiResponse::page_not_found())
        } else {
            Err(Status::no_such_resource())
        };
    };
    // Custom groups are served with any method.
    if group.is_custom() {
        return legacy(request, Gate::Open, &document);
    }
    get_only(request)?;
    legacy(request, Gate::Shut, &document)
}

fn legacy(request: &mut Request, gate: Gate, document: &Value) -> Result<ApiResponse, Status> {
    match negotiate::document(request.accept().as_deref(), gate) {
        Ok(form) => {
            request.form = form;
            Ok(ApiResponse::document(document))
        }
        Err(Refusal::MediaType) => Err(Status::not_acceptable(&DOCUMENTS)),
        Err(Refusal::Transformation) => Err(Status::not_acceptable_parameters(&DOCUMENTS)),
    }
}

/// The version of Kubernetes that is spoken here.
fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": concat!("v1.36.4+sendo-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        // What every Kubernetes says.
        "compiler": "gc",
        "platform": platform(),
    })
}

/// The machine, in the words in which Go and container images name it.
fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    format!("{system}/{architecture}")
}

/// `/`: lists the paths that are served.
fn paths(catalog: &Catalog) -> Value {
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    for group in catalog.groups() {
        let root = if group.name.is_empty() {
            "/api".to_owned()
        } else {
            format!("/apis/{}", group.name)
        };
        paths.extend(group.versions().map(|version| format!("{root}/{version}")));
        paths.push(root);
    }
    for remote in catalog.remote().iter().filter(|own| !own.group.is_empty()) {
        paths.push(format!("/apis/{}", remote.group));
        paths.push(remote.root());
    }
    let others = [
        "/.well-known/openid-configuration",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/readyz",
        "/version",
    ];
    paths.extend(others.map(str::to_owned));
    paths.sort();
    paths.dedup();
    json!({"paths": paths})
}
