//! Paths that name no resource: discovery, version, health.

use http::{Method, StatusCode};
use sendo_apimachinery::schema::Types;
use sendo_apimachinery::{Status, protobuf};
use serde_json::{Value, json};

use crate::answer::{self, Answer};
use crate::discovery::{self, Half};
use crate::health;
use crate::negotiate::{self, Discovery, Encoding, Form, Protobuf, View};
use crate::openapi;
use crate::request::Request;
use crate::resource::Catalog;
use crate::server::Server;
use crate::tokens::openid;
use crate::yaml;

/// Media types that documents come in, as refusals list them.
const DOCUMENTS: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// Answers a path that names no resource.
pub(crate) async fn answer(server: &Server, request: &mut Request) -> Result<Answer, Status> {
    if let Some(answer) = health::health(server, request) {
        return Ok(answer);
    }
    let catalog = server.catalog();
    let path = request.path.clone();
    let path = path.strip_suffix('/').unwrap_or(&path);
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match parts.as_slice() {
        [] => Ok(Answer::document(&paths(&catalog))),
        ["version"] => {
            get_only(request)?;
            json_only(request)?;
            Ok(Answer::document(&version()))
        }
        ["api"] => {
            get_only(request)?;
            top(&server.types, request, &catalog, Half::Core)
        }
        ["apis"] => top(&server.types, request, &catalog, Half::Named),
        ["api", version] => of_version(request, &catalog, "", version),
        ["apis", group] => match discovery::group(&catalog, group) {
            Some(document) => legacy(request, &document),
            None => Ok(Answer::page_not_found()),
        },
        ["apis", group, version] => of_version(request, &catalog, group, version),
        [".well-known", "openid-configuration"] => openid::configuration(server, request).await,
        ["openid", "v1", "jwks"] => openid::keys(server, request).await,
        ["openapi", "v2"] => Ok(openapi::version_two(server, request, &version())),
        ["openapi", "v3", path @ ..] => Ok(openapi::answer(server, request, &path.join("/"))),
        _ => Ok(Answer::page_not_found()),
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
    match negotiate::resource(request.accept().as_deref(), Protobuf::Nothing) {
        Ok(Form {
            encoding: Encoding::Json,
            ..
        }) => Ok(()),
        _ => Err(Status::not_acceptable(&["application/json"])),
    }
}

/// `/api` and `/apis`, aggregated for those who ask.
fn top(
    types: &Types,
    request: &mut Request,
    catalog: &Catalog,
    half: Half,
) -> Result<Answer, Status> {
    match negotiate::discovery(request.accept().as_deref()) {
        Some(Discovery::Aggregated(encoding)) => {
            let document = discovery::aggregated(catalog, half);
            let bytes = match encoding {
                Encoding::Json => answer::to_bytes(&document),
                Encoding::Yaml => yaml::write(&document).into(),
                Encoding::Protobuf => protobuf::encode(types, &document)
                    .expect("discovery has messages")
                    .into(),
            };
            let media_type = discovery::aggregated_type(encoding);
            Ok(Answer::Typed(StatusCode::OK, media_type, bytes))
        }
        Some(Discovery::Legacy(encoding)) => {
            request.form = Form {
                encoding,
                ..Form::JSON
            };
            Ok(Answer::document(&match half {
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
) -> Result<Answer, Status> {
    if catalog.is_remote(group, version) {
        return Ok(Answer::unavailable());
    }
    let Some(group) = catalog.group(group) else {
        return Ok(Answer::page_not_found());
    };
    let Some(document) = discovery::resources(group, version) else {
        return if group.is_custom() {
            Ok(Answer::page_not_found())
        } else {
            Err(Status::no_such_resource())
        };
    };
    get_only(request)?;
    legacy(request, &document)
}

fn legacy(request: &mut Request, document: &Value) -> Result<Answer, Status> {
    match negotiate::resource(request.accept().as_deref(), Protobuf::Objects) {
        Ok(form) if form.view == View::Whole => {
            request.form = form;
            Ok(Answer::document(document))
        }
        _ => Err(Status::not_acceptable_parameters(&DOCUMENTS)),
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

/// `/`: where to look further.
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
    let others = [
        "/.well-known/openid-configuration",
        "/healthz",
        "/livez",
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
