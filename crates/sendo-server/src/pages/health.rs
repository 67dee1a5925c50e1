//! Serves `/healthz`, `/livez` and `/readyz`: whether the server is healthy, alive and ready.

use std::sync::atomic::Ordering;

use http::StatusCode;

use crate::read::answer::ApiResponse;
use crate::request::Request;
use crate::state::Server;

/// One thing that is checked.
struct Check {
    name: &'static str,
    only_ready: bool,
    is_well: fn(&Server) -> bool,
}

/// The checks, in the order in which they are listed. The store is called by
/// the name that clients know.
const CHECKS: [Check; 4] = [
    Check {
        name: "ping",
        only_ready: false,
        is_well: |_| true,
    },
    Check {
        name: "etcd",
        only_ready: false,
        is_well: |server| server.store.health().is_ok(),
    },
    Check {
        name: "informer-sync",
        only_ready: true,
        is_well: |server| server.parts_are_up.load(Ordering::Acquire),
    },
    Check {
        name: "shutdown",
        only_ready: true,
        is_well: |server| !server.world.tasks().stopping().is_cancelled(),
    },
];

/// Answers a health path; `None` if the path is none.
pub(crate) fn health(server: &Server, request: &Request) -> Option<ApiResponse> {
    let mut parts = request.path.strip_prefix('/')?.split('/');
    let endpoint = parts.next()?;
    if !["healthz", "livez", "readyz"].contains(&endpoint) {
        return None;
    }
    let checks = CHECKS
        .iter()
        .filter(|check| endpoint == "readyz" || !check.only_ready);
    match (parts.next(), parts.next()) {
        (None, _) => Some(all(server, request, endpoint, checks)),
        (Some(name), None) => Some(one(server, name, checks)),
        _ => Some(ApiResponse::page_not_found()),
    }
}

fn one(
    server: &Server,
    name: &str,
    mut checks: impl Iterator<Item = &'static Check>,
) -> ApiResponse {
    match checks.find(|check| check.name == name) {
        None => ApiResponse::page_not_found(),
        Some(check) if (check.is_well)(server) => {
            ApiResponse::Text(StatusCode::OK, "ok".to_owned())
        }
        Some(check) => {
            let text = format!("internal server error: check {} failed\n", check.name);
            ApiResponse::Text(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
    }
}

fn all(
    server: &Server,
    request: &Request,
    endpoint: &str,
    checks: impl Iterator<Item = &'static Check>,
) -> ApiResponse {
    let excluded: Vec<&str> = request.query.all("exclude").collect();
    let (mut lines, mut well) = (String::new(), true);
    for check in checks {
        let line = if excluded.contains(&check.name) {
            format!("[+]{} excluded: ok\n", check.name)
        } else if (check.is_well)(server) {
            format!("[+]{} ok\n", check.name)
        } else {
            well = false;
            format!("[-]{} failed: reason withheld\n", check.name)
        };
        lines.push_str(&line);
    }
    if !well {
        return ApiResponse::Text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("{lines}{endpoint} check failed\n"),
        );
    }
    let verbose = request.query.first("verbose").is_some();
    let text = if verbose {
        format!("{lines}{endpoint} check passed\n")
    } else {
        "ok".to_owned()
    };
    ApiResponse::Text(StatusCode::OK, text)
}
