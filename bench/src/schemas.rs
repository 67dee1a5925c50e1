//! Requests whose cost depends on schemas: applies, custom resources, definitions.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use sendo::World;
use sendo_server::{ApiServer, Options};
use sendo_store::{Memory, Retention};
use serde_json::{Map, Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/shop";
/// The number of field managers of the Deployment.
const MANAGERS: usize = 10;
/// How long each figure is taken.
const SPAN: Duration = Duration::from_secs(3);

pub(crate) async fn measure() -> anyhow::Result<()> {
    println!("| what | figure |");
    println!("|---|---|");
    let (changed, unchanged) = applies().await?;
    println!(
        "| applies of a Deployment with {MANAGERS} managers, each a change | {changed:.0}/s |"
    );
    println!("| the same, nothing changed | {unchanged:.0}/s |");
    for rules in [false, true] {
        let (size, took) = custom_resource(rules).await?;
        let rules = if rules { ", 1,000 rules run" } else { "" };
        println!(
            "| creation of a custom resource of {} KB, defaulted and validated{rules} | {took:.1?} |",
            size / 1024
        );
    }
    let took = definition_to_object().await?;
    println!("| definition created to first object stored | {took:.1?} |");
    let (size, took) = large_definition().await?;
    println!(
        "| creation of a definition of {} KB | {took:.1?} |",
        size / 1024
    );
    println!();
    Ok(())
}

/// A server in this process, and how to call it.
struct Server {
    world: World,
    client: kube::Client,
}

impl Server {
    async fn start() -> anyhow::Result<Self> {
        let world = World::real();
        let store = Memory::new(world.clock().clone(), Retention::default());
        let server = ApiServer::start(Options::new(Arc::new(store), world.clone())).await?;
        let client = kube::Client::new(server.client_service(), "default");
        Ok(Server { world, client })
    }

    async fn call(&self, method: &str, path: &str, kind: &str, body: &str) -> anyhow::Result<()> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(Body::from(body.as_bytes().to_vec()))?;
        let response = self.client.send(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        anyhow::ensure!(
            status.is_success(),
            "{method} {path}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(())
    }

    async fn post(&self, path: &str, body: &str) -> anyhow::Result<()> {
        self.call("POST", path, "application/json", body).await
    }

    async fn apply(&self, manager: usize, config: &Value) -> anyhow::Result<()> {
        let path = format!("{DEPLOYMENT}?fieldManager=manager-{manager}&force=true");
        let body = config.to_string();
        let kind = "application/apply-patch+yaml";
        self.call("PATCH", &path, kind, &body).await
    }

    /// How long a step takes on average, taken over a span of time.
    async fn average(
        &self,
        mut step: impl AsyncFnMut(usize) -> anyhow::Result<()>,
    ) -> anyhow::Result<Duration> {
        let clock = self.world.clock();
        step(0).await?;
        let started = clock.now();
        for count in 1.. {
            step(count).await?;
            let took = clock.now() - started;
            if took > SPAN {
                return Ok(took / u32::try_from(count)?);
            }
        }
        unreachable!("the span ends")
    }
}

/// Applies a second, by ten managers in turn: with a change each, and without.
async fn applies() -> anyhow::Result<(f64, f64)> {
    let server = Server::start().await?;
    let config = |manager: usize, value: usize| {
        let container = json!({"name": format!("c{manager}"), "image": format!("image:{value}"),
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"containerPort": 8080 + manager}]});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "shop", "labels": {format!("l{manager}"): "x"}},
            "spec": {"selector": {"matchLabels": {"app": "shop"}}, "template": {
                "metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [container]}}},
        })
    };
    for manager in 0..MANAGERS {
        server.apply(manager, &config(manager, 0)).await?;
    }
    let changed = server
        .average(async |count| {
            server
                .apply(count % MANAGERS, &config(count % MANAGERS, count))
                .await
        })
        .await?;
    for manager in 0..MANAGERS {
        server.apply(manager, &config(manager, 0)).await?;
    }
    let unchanged = server
        .average(async |count| {
            server
                .apply(count % MANAGERS, &config(count % MANAGERS, 0))
                .await
        })
        .await?;
    server.world.tasks().stop().await;
    Ok((1.0 / changed.as_secs_f64(), 1.0 / unchanged.as_secs_f64()))
}

fn definition(plural: &str, spec: &Value) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.example.dev")},
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.to_uppercase()},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}],
        },
    })
}

/// The size of a custom resource of a thousand items, and how long it takes to create one.
async fn custom_resource(rules: bool) -> anyhow::Result<(usize, Duration)> {
    let server = Server::start().await?;
    let mut item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "maxLength": 40, "pattern": "^[a-z0-9-]+$"},
        "weight": {"type": "integer", "minimum": 0, "maximum": 10_000},
        "protocol": {"type": "string", "enum": ["TCP", "UDP"], "default": "TCP"},
    }});
    if rules {
        item["x-kubernetes-validations"] = json!([
            {"rule": "self.weight < 5000 || self.name.startsWith('item')", "message": "heavy items are named so"},
        ]);
    }
    let spec = json!({"type": "object", "properties": {"items": {
        "type": "array", "maxItems": 2000, "items": item,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
    }}});
    server
        .post(DEFINITIONS, &definition("widgets", &spec).to_string())
        .await?;
    let items: Vec<Value> = (0..1000)
        .map(|i| json!({"name": format!("item-{i:04}-of-a-thousand"), "weight": i * 7}))
        .collect();
    let object = json!({
        "apiVersion": "example.dev/v1", "kind": "WIDGETS", "metadata": {"name": "w"}, "spec": {"items": items},
    });
    let body = object.to_string();
    let path = "/apis/example.dev/v1/namespaces/default/widgets?dryRun=All";
    let took = server
        .average(async |_| server.post(path, &body).await)
        .await?;
    server.world.tasks().stop().await;
    Ok((body.len(), took))
}

/// From the creation of a definition to its first object in the store.
async fn definition_to_object() -> anyhow::Result<Duration> {
    let server = Server::start().await?;
    let spec = json!({"type": "object", "properties": {
        "replicas": {"type": "integer", "default": 1},
        "image": {"type": "string", "maxLength": 100},
    }, "x-kubernetes-validations": [{"rule": "self.replicas < 10"}]});
    let took = server
        .average(async |count| {
            let plural = format!("kind{count}s");
            server
                .post(DEFINITIONS, &definition(&plural, &spec).to_string())
                .await?;
            let object = json!({
                "apiVersion": "example.dev/v1", "kind": plural.to_uppercase(),
                "metadata": {"name": "first"}, "spec": {"image": "i"},
            });
            let path = format!("/apis/example.dev/v1/namespaces/default/{plural}");
            server.post(&path, &object.to_string()).await?;
            let path = format!("{DEFINITIONS}/{plural}.example.dev");
            server.call("DELETE", &path, "application/json", "").await
        })
        .await?;
    server.world.tasks().stop().await;
    Ok(took)
}

/// The size of a definition as large as the largest in use, and how long its creation takes.
async fn large_definition() -> anyhow::Result<(usize, Duration)> {
    fn part(depth: usize) -> Value {
        let description = "What this field is for, in as many words as definitions in use spend on it, more or less.";
        if depth == 0 {
            return json!({"type": "string", "maxLength": 64, "description": description});
        }
        let fields: Map<String, Value> = (0..9)
            .map(|i| (format!("field{i}"), part(depth - 1)))
            .collect();
        json!({
            "type": "object", "description": description, "required": ["field0"], "properties": fields,
            "x-kubernetes-validations": [{"rule": "has(self.field0)", "message": "field0 is needed"}],
        })
    }
    let server = Server::start().await?;
    let body = definition("larges", &part(4)).to_string();
    let path = format!("{DEFINITIONS}/larges.example.dev");
    let took = server
        .average(async |_| {
            server.post(DEFINITIONS, &body).await?;
            server.call("DELETE", &path, "application/json", "").await
        })
        .await?;
    server.world.tasks().stop().await;
    Ok((body.len(), took))
}
