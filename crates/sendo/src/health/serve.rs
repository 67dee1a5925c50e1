//! The pages that a kubelet probes.

use http::StatusCode;
use sendo_world::{Stop, World};

use super::Checks;
use crate::serve::{Listener, PageRequest, PageResponse};

/// The checks behind the two probes.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    /// Behind `/healthz`: if one fails, the process should be restarted.
    pub live: Checks,
    /// Behind `/readyz`: while one fails, the process should not be called.
    pub ready: Checks,
}

/// Serves `probes` in plain HTTP until `stop`.
///
/// After the stop, probes under way may finish; no connection is left on return.
pub async fn serve(listener: Listener, world: &World, probes: &Probes, stop: &Stop) {
    let (probes, inner) = (probes.clone(), world.clone());
    let handler = move |request: PageRequest| {
        let (probes, world) = (probes.clone(), inner.clone());
        async move { answer(&probes, &world, &request).await }
    };
    listener.serve(world, stop, handler).await;
}

async fn answer(probes: &Probes, world: &World, request: &PageRequest) -> PageResponse {
    let mut segments = request.path.trim_start_matches('/').splitn(2, '/');
    let (probe, check) = (segments.next().unwrap_or_default(), segments.next());
    let checks = match probe {
        "healthz" => &probes.live,
        "readyz" => &probes.ready,
        _ => return PageResponse::not_found(),
    };
    match check {
        Some(name) => one(checks, world, name).await,
        None => all(checks, world, request, probe).await,
    }
}

async fn one(checks: &Checks, world: &World, name: &str) -> PageResponse {
    match checks.run_one(world, name).await {
        Some(Ok(())) => PageResponse::text(StatusCode::OK, "ok"),
        Some(Err(cause)) => failed(format!("internal server error: {cause}\n")),
        None => PageResponse::not_found(),
    }
}

async fn all(checks: &Checks, world: &World, request: &PageRequest, probe: &str) -> PageResponse {
    let exclude: Vec<&str> = request.parameters("exclude").collect();
    let report = checks.run(world, &exclude).await;
    let lines = report.lines();
    if !report.passed() {
        return failed(format!("{lines}{probe} check failed\n"));
    }
    match request.parameters("verbose").next() {
        Some(_) => PageResponse::text(StatusCode::OK, format!("{lines}{probe} check passed\n")),
        None => PageResponse::text(StatusCode::OK, "ok"),
    }
}

fn failed(body: String) -> PageResponse {
    PageResponse::text(StatusCode::INTERNAL_SERVER_ERROR, body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::tests::{ask, while_serving};

    /// Status code and body of `GET path`, with one check that fails.
    async fn get(path: &'static str) -> (String, String) {
        let probes = Probes::default();
        let fine = || async { Ok::<(), String>(()) };
        probes.ready.add("caches", fine).unwrap();
        let broken = || async { Err("no connection") };
        probes.ready.add("store", broken).unwrap();
        let world = World::seeded(1);
        let handler = move |request: PageRequest| {
            let (probes, world) = (probes.clone(), world.clone());
            async move { answer(&probes, &world, &request).await }
        };
        let (send, receive) = tokio::sync::oneshot::channel();
        while_serving(handler, |address| async move {
            send.send(ask(address, &format!("GET {path}")).await)
                .unwrap();
        })
        .await;
        let answer = receive.await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].to_owned(), body.to_owned())
    }

    #[tokio::test]
    async fn probes_answer_as_those_of_the_field_do() {
        let cases = [
            ("/healthz", "200", "ok"),
            ("/healthz?verbose", "200", "healthz check passed\n"),
            (
                "/readyz",
                "500",
                "[+]caches ok\n[-]store failed: no connection\nreadyz check failed\n",
            ),
            ("/readyz?exclude=store", "200", "ok"),
            (
                "/readyz?verbose&exclude=store&exclude=a&exclude=b",
                "200",
                "[+]caches ok\n[+]store excluded: ok\nwarn: some health checks cannot be \
                 excluded: no matches for \"a\",\"b\"\nreadyz check passed\n",
            ),
            ("/readyz/caches", "200", "ok"),
            (
                "/readyz/store",
                "500",
                "internal server error: no connection\n",
            ),
            ("/readyz/other", "404", "404 page not found\n"),
            ("/", "404", "404 page not found\n"),
        ];
        for (path, status, body) in cases {
            let answer = get(path).await;
            assert_eq!(answer, (status.to_owned(), body.to_owned()), "{path}");
        }
    }
}
