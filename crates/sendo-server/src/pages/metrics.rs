//! Serves `/metrics`: what the server counts, what it keeps, and what the operating system
//! counts of its process.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/server/routes/metrics.go`: `MetricsWithReset`
//! - `staging/src/k8s.io/component-base/metrics/http.go`: `HandlerWithReset`
//! - `staging/src/k8s.io/apiserver/pkg/storage/etcd3/metrics/metrics.go`: `objectCounts`, `newObjectCounts`
//! - `staging/src/k8s.io/component-base/metrics/prometheus/version/metrics.go`

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use sendo_apimachinery::{GroupResource, Status};
use sendo_store::{At, KeyRange};
use sendo_world::process::Usage;
use serde_json::Value;

use crate::catalog::Catalog;
use crate::catalog::storage::backend;
use crate::metrics::page::{Description, MEDIA_TYPE, Page};
use crate::read::answer::ApiResponse;
use crate::request::Request;
use crate::state::Server;

/// Answers `/metrics`. A DELETE begins anew with what is counted.
pub(super) async fn answer(server: &Server, request: &Request) -> Result<ApiResponse, Status> {
    if request.method == Method::DELETE {
        server.metrics.reset();
        let text = "metrics reset\n".to_owned();
        return Ok(ApiResponse::Text(StatusCode::OK, text));
    }
    let mut page = Page::default();
    server.metrics.write(&mut page);
    in_flight(server, &mut page);
    objects(server, &mut page).await?;
    version(&mut page);
    process(&mut page, &Usage::read());
    let text = page.finish().into();
    Ok(ApiResponse::Typed(StatusCode::OK, MEDIA_TYPE, text))
}

fn in_flight(server: &Server, page: &mut Page) {
    let about = Description {
        name: "apiserver_current_inflight_requests",
        help: "[STABLE] Maximal number of currently used inflight request limit of this apiserver per request kind in last second.",
        labels: &["request_kind"],
    };
    let (reads, writes) = server.in_flight.most(server.world.clock().now());
    let values = [(&["mutating"], writes), (&["readOnly"], reads)];
    let values = values
        .iter()
        .map(|(labels, most)| (&labels[..], *most as f64));
    page.values("gauge", &about, values);
}

/// Group and name of each resource that is stored, and the prefix of its keys.
fn stored_resources(catalog: &Catalog) -> BTreeMap<[String; 2], String> {
    let mut stored = BTreeMap::new();
    for group in catalog.groups() {
        for version in group.versions() {
            for resource in group.resources(version).unwrap_or_default() {
                if resource.custom.is_some() || resource.facts.storage.is_some() {
                    let name = [resource.group_kind().group, resource.facts.plural.clone()];
                    stored.insert(name, resource.keys.collection(None));
                }
            }
        }
    }
    stored
}

/// How many objects are stored of each resource.
async fn objects(server: &Server, page: &mut Page) -> Result<(), Status> {
    let mut counts: Vec<([String; 2], f64)> = Vec::new();
    for (name, prefix) in stored_resources(&server.catalog()) {
        let range = KeyRange::prefix(&prefix);
        let first = server.store.range(range, At::Latest, Some(1)).await;
        let first = first.map_err(backend)?;
        let count = first.entries.len() as u64 + first.remaining;
        counts.push((name, count as f64));
    }
    let about = Description {
        name: "apiserver_resource_objects",
        help: "[ALPHA] Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1.",
        labels: &["group", "resource"],
    };
    let values = counts.iter().map(|(labels, count)| (&labels[..], *count));
    page.values("gauge", &about, values);
    let about = Description {
        name: "apiserver_storage_objects",
        help: "[STABLE] (Deprecated since 1.34.0) [DEPRECATED, consider using apiserver_resource_objects instead] Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1.",
        labels: &["resource"],
    };
    let mut full: Vec<([String; 1], f64)> = counts
        .iter()
        .map(|([group, resource], count)| {
            let name = GroupResource::new(group, resource).to_string();
            ([name], *count)
        })
        .collect();
    full.sort_by(|(a, _), (b, _)| a.cmp(b));
    let values = full.iter().map(|(labels, count)| (&labels[..], *count));
    page.values("gauge", &about, values);
    Ok(())
}

fn version(page: &mut Page) {
    let about = Description {
        name: "kubernetes_build_info",
        help: "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
        labels: &[
            "major",
            "minor",
            "git_version",
            "git_commit",
            "git_tree_state",
            "build_date",
            "go_version",
            "compiler",
            "platform",
        ],
    };
    let version = super::version();
    let members = [
        "major",
        "minor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ];
    let labels = members.map(|member| version.get(member).and_then(Value::as_str).unwrap_or(""));
    page.values("gauge", &about, [(&labels[..], 1.0)].into_iter());
}

/// What the operating system counts; it is left out where that cannot be read.
fn process(page: &mut Page, usage: &Usage) {
    let values = [
        (
            "counter",
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
            usage.cpu_seconds,
        ),
        (
            "gauge",
            "process_max_fds",
            "Maximum number of open file descriptors.",
            usage.max_files,
        ),
        (
            "gauge",
            "process_open_fds",
            "Number of open file descriptors.",
            usage.open_files,
        ),
        (
            "gauge",
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            usage.resident_bytes,
        ),
        (
            "gauge",
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            usage.start_seconds,
        ),
        (
            "gauge",
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            usage.virtual_bytes,
        ),
    ];
    for (kind, name, help, value) in values {
        if let Some(value) = value {
            let about = Description {
                name,
                help,
                labels: &[],
            };
            page.value(kind, &about, value);
        }
    }
}
