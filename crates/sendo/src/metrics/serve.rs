//! The page that a Prometheus server scrapes.

use http::StatusCode;
use sendo_world::{Stop, World};

use super::{Format, Registry};
use crate::serve::{Answer, Asked, Listener};

/// Serves `registry` on `/metrics`, in plain HTTP, until `stop`.
///
/// A scraper gets OpenMetrics if it prefers that, and the classic text otherwise.
/// After the stop, scrapes under way may finish; no connection is left on return.
pub async fn serve(listener: Listener, world: &World, registry: &Registry, stop: &Stop) {
    let registry = registry.clone();
    let handler = move |asked: Asked| {
        let answer = answer(&registry, &asked);
        async move { answer }
    };
    listener.serve(world, stop, handler).await;
}

fn answer(registry: &Registry, asked: &Asked) -> Answer {
    if asked.path != "/metrics" {
        return Answer::not_found();
    }
    let format = Format::accepted_by(&asked.accept);
    Answer {
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
        let handler = move |asked: Asked| {
            let answer = answer(&registry, &asked);
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
