//! The page that a Prometheus server scrapes.

mod guard;

use std::path::Path;

use http::StatusCode;
use sendo_world::{Stop, World};

use self::guard::Guard;
use crate::client::Client;
use crate::metrics::{Format, Registry};
use crate::serve::{Listener, PageRequest, PageResponse};
use crate::tls::{Tls, TlsError, TlsOptions};

/// Serves `registry` on `/metrics` until `stop`: in plain HTTP or, with
/// `security`, through TLS and only to whom the API server lets see it.
///
/// A scraper gets OpenMetrics if it prefers that, and the classic text otherwise.
/// After the stop, scrapes under way may finish; no connection is left on return.
pub async fn serve(
    listener: Listener,
    world: &World,
    registry: &Registry,
    security: Option<Security>,
    stop: &Stop,
) {
    let registry = registry.clone();
    let (tls, guard) = security.map(|s| (s.tls, s.guard)).unzip();
    let handler = move |request: PageRequest| {
        let (registry, guard) = (registry.clone(), guard.clone());
        async move {
            let refusal = match &guard {
                Some(guard) => guard.refusal(&request.authorization, &request.path).await,
                None => None,
            };
            refusal.unwrap_or_else(|| answer(&registry, &request))
        }
    };
    listener.serve_with(tls, world, stop, handler).await;
}

/// Metrics through TLS, for those only who show a token of somebody who may
/// `get /metrics`: a TokenReview and a SubjectAccessReview, request of the API
/// server once a minute for each token.
#[derive(Clone)]
pub struct Security {
    tls: Tls,
    guard: Guard,
}

impl Security {
    /// With the certificate `tls.crt` and the key `tls.key` of a folder, read again when they
    /// change; without one, with a certificate that is signed by itself. `client` reviews tokens
    /// and rights.
    pub fn new(client: Client, world: &World, folder: Option<&Path>) -> Result<Self, TlsError> {
        Ok(Security {
            tls: Tls::new(folder, TlsOptions::new(world.clock()))?,
            guard: Guard::new(client, world.clock().clone()),
        })
    }
}

impl std::fmt::Debug for Security {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Security")
    }
}

fn answer(registry: &Registry, request: &PageRequest) -> PageResponse {
    if request.path != "/metrics" {
        return PageResponse::not_found();
    }
    let format = Format::accepted_by(&request.accept);
    PageResponse {
        status: StatusCode::OK,
        content_type: format.content_type(),
        body: registry.encode(format),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::tests::{ask, while_serving};

    #[tokio::test]
    async fn the_page_comes_in_the_format_the_scraper_prefers() {
        let registry = Registry::new();
        let handler = move |request: PageRequest| {
            let answer = answer(&registry, &request);
            async move { answer }
        };
        while_serving(handler, |address| async move {
            let classic = ask(address, "GET /metrics").await;
            assert!(classic.contains("content-type: text/plain; version=0.0.4"));
            assert!(classic.contains("# TYPE workqueue_depth gauge\n"));
            assert!(!classic.contains("# EOF"));
            let accept = "accept: application/openmetrics-text;version=1.0.0";
            let request = format!("GET /metrics HTTP/1.1\r\n{accept}\r\nx-rest:");
            let open = ask(address, &request).await;
            assert!(open.contains("content-type: application/openmetrics-text"));
            assert!(open.ends_with("# EOF\n"));
            let other = ask(address, "GET /").await;
            assert!(other.starts_with("HTTP/1.1 404 "));
        })
        .await;
    }
}
