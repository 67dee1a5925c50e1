//! A server in this process, and short words to call it with.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use sendo_server::{ApiServer, Body, Options, User};
use sendo_store::Memory;
use sendo_world::World;
use serde_json::Value;
use tower::ServiceExt;

/// A fresh server in a seeded world.
pub(crate) struct Fixture {
    pub(crate) server: ApiServer,
    pub(crate) world: World,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
    pub(crate) content_type: String,
}

impl Answer {
    /// The code, and what a Status says beside it.
    pub(crate) fn refusal(&self) -> (u16, String) {
        let message = self.body["message"].as_str().unwrap_or_default();
        (self.code, message.to_owned())
    }
}

impl Fixture {
    pub(crate) async fn start() -> Self {
        Fixture::start_with(|_| {}).await
    }

    /// A server with other options than the default ones.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Options)) -> Self {
        let world = World::seeded(1);
        let store = Arc::new(Memory::new(world.clock().clone(), Default::default()));
        let mut options = Options::new(store, world.clone());
        change(&mut options);
        let server = ApiServer::start(options).await.unwrap();
        Fixture { server, world }
    }

    /// Sends a request and gives the response as it comes.
    pub(crate) async fn send(
        &self,
        user: User,
        request: http::Request<Full<Bytes>>,
    ) -> http::Response<Body> {
        match self.server.as_user(user).oneshot(request).await {
            Ok(response) => response,
        }
    }

    pub(crate) async fn call(
        &self,
        line: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let (method, uri) = line.split_once(' ').unwrap();
        let mut builder = http::Request::builder().method(method).uri(uri);
        for (key, value) in headers {
            builder = builder.header(*key, *value);
        }
        let request = builder.body(Full::new(body.into())).unwrap();
        read(self.send(User::admin(), request).await).await
    }

    /// `get("/api/v1/…")`
    pub(crate) async fn get(&self, uri: &str) -> Answer {
        self.call(&format!("GET {uri}"), &[], "").await
    }

    /// Sends JSON: `json("POST /api/v1/…", json!({…}))`
    pub(crate) async fn json(&self, line: &str, body: Value) -> Answer {
        self.call(
            line,
            &[("content-type", "application/json")],
            body.to_string(),
        )
        .await
    }

    /// Sends a merge patch.
    pub(crate) async fn merge(&self, uri: &str, body: Value) -> Answer {
        let headers = [("content-type", "application/merge-patch+json")];
        self.call(&format!("PATCH {uri}"), &headers, body.to_string())
            .await
    }

    pub(crate) async fn delete(&self, uri: &str) -> Answer {
        self.call(&format!("DELETE {uri}"), &[], "").await
    }

    /// Opens a watch.
    pub(crate) async fn watch(&self, uri: &str) -> Watching {
        let request = http::Request::get(uri).body(Full::default()).unwrap();
        let response = self.send(User::admin(), request).await;
        assert_eq!(response.status(), 200, "{:?}", response.body());
        Watching {
            body: response.into_body(),
            lines: Vec::new(),
        }
    }
}

async fn read(response: http::Response<Body>) -> Answer {
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let warnings = response
        .headers()
        .get_all("warning")
        .iter()
        .map(text)
        .collect();
    let content_type = response
        .headers()
        .get("content-type")
        .map(text)
        .unwrap_or_default();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    Answer {
        code,
        body,
        warnings,
        content_type,
    }
}

/// An open watch.
pub(crate) struct Watching {
    body: Body,
    lines: Vec<Value>,
}

impl Watching {
    /// The next event; `None` when the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        while self.lines.is_empty() {
            let frame = self.body.frame().await?.unwrap().into_data().unwrap();
            let text = String::from_utf8(frame.to_vec()).unwrap();
            assert!(text.ends_with('\n'), "events come as whole lines");
            self.lines = text
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
        }
        Some(self.lines.remove(0))
    }

    /// The next `count` events as `TYPE name`.
    pub(crate) async fn names(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..count {
            let event = self.next().await.expect("the watch goes on");
            let name = event["object"]["metadata"]["name"]
                .as_str()
                .unwrap_or_default();
            names.push(format!("{} {name}", event["type"].as_str().unwrap()));
        }
        names
    }
}
