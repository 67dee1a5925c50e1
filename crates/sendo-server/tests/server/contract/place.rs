//! A server to tell tables to, and a namespace and a group on it.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use sendo_server::{ApiServer, Authority, Options};
use sendo_store::Memory;
use sendo_world::World;
use serde_json::{Value, json};

use super::{admission, conversion};
use crate::webhook_server;

/// What tables call the namespace and the group they work in.
const NAMESPACE: &str = "here";
const GROUP: &str = "example.dev";
/// And a node, which belongs to no namespace.
const NODE: &str = "the-node";

/// What tables call the place of the webhooks.
const CONVERTERS: &str = "https://converters";

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub(crate) const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";

/// What tables call admission policies, their bindings and configurations of webhooks, with their
/// resources and kinds.
pub(crate) const ADMISSION: [(&str, &str, &str); 6] = [
    (
        "validators",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
    ),
    (
        "mutators",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
    ),
    (
        "policies",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
    ),
    (
        "policy-bindings",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
    ),
    (
        "mutations",
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
    ),
    (
        "mutation-bindings",
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
    ),
];

/// A server with a namespace and an API group that nobody else uses.
pub(crate) struct Place {
    client: kube::Client,
    world: World,
    /// The names on the server of what tables call `here` and `example.dev`.
    namespace: String,
    group: String,
    is_real: bool,
    /// Where the webhooks of the tables are, and whom to trust for them.
    converters: Converters,
}

struct Converters {
    base: String,
    ca_bundle: String,
}

impl Converters {
    async fn start(world: &World) -> Self {
        let authority = Authority::new(world.clock().wall()).expect("an authority is made");
        let answer = |request: http::Request<Bytes>| match request.uri().path() {
            path if path.starts_with(admission::PATH) => admission::answer(request),
            _ => conversion::answer(request),
        };
        Converters {
            base: webhook_server::serve(world, &authority, Arc::new(answer)).await,
            ca_bundle: STANDARD.encode(authority.pem()),
        }
    }
}

/// An answer, read to its end, in the words of the tables.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    /// What a refusal says is wrong, each with its field, in one order.
    ///
    /// Real servers walk maps in any order.
    pub(crate) fn causes(&self) -> Vec<String> {
        let causes = self.body["details"]["causes"].as_array();
        let text = |cause: &Value| {
            let [field, message] =
                ["field", "message"].map(|key| cause[key].as_str().unwrap_or(""));
            format!("{field}: {message}")
        };
        let mut causes: Vec<String> = causes.into_iter().flatten().map(text).collect();
        causes.sort();
        causes
    }
}

impl Place {
    pub(crate) async fn open() -> Self {
        let world = World::real();
        let converters = Converters::start(&world).await;
        let place = match std::env::var("SENDO_REAL_KUBECONFIG") {
            Ok(path) => {
                let id = world.random().name_suffix(6);
                let kubeconfig = Kubeconfig::read_from(path).expect("the kubeconfig is readable");
                let options = KubeConfigOptions::default();
                let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
                let config = config.expect("the kubeconfig names a cluster");
                Place {
                    client: config.try_into().expect("the kubeconfig makes a client"),
                    namespace: format!("contract-{id}"),
                    group: format!("{id}.{GROUP}"),
                    world,
                    is_real: true,
                    converters,
                }
            }
            Err(_) => {
                let store = Arc::new(Memory::new(world.clock().clone(), Default::default()));
                let options = Options::new(store, world.clone());
                let server = ApiServer::start(options).await.expect("the server starts");
                Place {
                    client: kube::Client::new(server.client_service(), "default"),
                    namespace: NAMESPACE.to_owned(),
                    group: GROUP.to_owned(),
                    world,
                    is_real: false,
                    converters,
                }
            }
        };
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        let made = place
            .call("POST", "/api/v1/namespaces", "application/json", &namespace)
            .await;
        assert_eq!(made.code, 201, "{}", made.body);
        place
    }

    /// Deletes what was made.
    pub(crate) async fn close(self) {
        if self.is_real {
            self.delete_what_was_made().await;
        }
        self.world.tasks().stop().await;
    }

    async fn delete_what_was_made(&self) {
        // These first: they would decide about the rest.
        for (_, plural, _) in ADMISSION {
            let list = self.get(&format!("{REGISTRATION}/{plural}")).await;
            let items = list.body["items"].as_array().into_iter().flatten();
            for name in items.filter_map(|item| item["metadata"]["name"].as_str()) {
                if name.ends_with(GROUP) {
                    self.delete(&format!("{REGISTRATION}/{plural}/{name}"))
                        .await;
                }
            }
        }
        let definitions = self.get(DEFINITIONS).await;
        for definition in definitions.body["items"].as_array().into_iter().flatten() {
            if definition["spec"]["group"] == GROUP {
                let name = definition["metadata"]["name"].as_str().unwrap_or_default();
                self.delete(&format!("{DEFINITIONS}/{name}")).await;
            }
        }
        self.delete(&format!("/api/v1/namespaces/{NAMESPACE}"))
            .await;
        self.delete(&format!("/api/v1/nodes/{NODE}")).await;
    }

    /// Sends a request whose names are those of the tables.
    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Answer {
        self.call_as(None, method, path, content_type, body).await
    }

    /// The same with the rights of a node.
    pub(crate) async fn call_as(
        &self,
        node: Option<&str>,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Answer {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let mut request = http::Request::builder()
            .method(method)
            .uri(self.outward(path))
            .header("content-type", content_type)
            .header("user-agent", "contract/1");
        if let Some(node) = node {
            let user = self.outward(&format!("system:node:{node}"));
            request = request
                .header("impersonate-user", user)
                .header("impersonate-group", "system:nodes");
        }
        let request = request
            .body(Body::from(self.outward(&body).into_bytes()))
            .expect("the request is well formed");
        let response = self.client.send(request).await.expect("the server answers");
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings
            .map(|warning| self.inward(warning.to_str().unwrap_or_default()))
            .collect();
        let bytes = response
            .into_body()
            .collect()
            .await
            .expect("the answer ends");
        let text = self.inward(&String::from_utf8_lossy(&bytes.to_bytes()));
        Answer {
            code,
            body: serde_json::from_str(&text).unwrap_or(Value::String(text)),
            warnings,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "application/json", &Value::Null)
            .await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path, "application/json", body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call("DELETE", path, "application/json", &Value::Null)
            .await
    }

    /// Creates a definition and waits until its objects are served.
    pub(crate) async fn define(&self, definition: &Value) -> Answer {
        let answer = self.post(DEFINITIONS, definition).await;
        if answer.code == 201 {
            let spec = &definition["spec"];
            let versions = spec["versions"].as_array().into_iter().flatten();
            let served = versions.filter(|version| version["served"] == true);
            for version in served {
                let [version, plural] = [&version["name"], &spec["names"]["plural"]]
                    .map(|name| name.as_str().unwrap_or_default());
                let path = format!("/apis/{GROUP}/{version}/{plural}");
                while self.get(&path).await.code != 200 {
                    self.wait(50).await;
                }
            }
        }
        answer
    }

    /// Waits until a real server has taken in that a definition changed, which nothing tells.
    pub(crate) async fn settle(&self) {
        if self.is_real {
            self.wait(1500).await;
        }
    }

    pub(crate) async fn wait(&self, milliseconds: u64) {
        let pause = Duration::from_millis(milliseconds);
        self.world.clock().sleep(pause).await;
    }

    fn outward(&self, text: &str) -> String {
        text.replace(GROUP, &self.group)
            .replace(CONVERTERS, &self.converters.base)
            .replace("{ca}", &self.converters.ca_bundle)
            .replace("namespaces/here", &format!("namespaces/{}", self.namespace))
            .replace("\"here\"", &format!("{:?}", self.namespace))
            .replace(NODE, &format!("{}-node", self.namespace))
    }

    fn inward(&self, text: &str) -> String {
        text.replace(&self.group, GROUP)
            .replace(&format!("{}-node", self.namespace), NODE)
            .replace(&self.converters.base, CONVERTERS)
            .replace(&self.namespace, NAMESPACE)
            .replace(&reversed(&self.group), &reversed(GROUP))
    }
}

/// A group as names in OpenAPI begin with it.
fn reversed(group: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').collect();
    parts.reverse();
    parts.join(".")
}

/// A definition of `Widget`s in one version with a schema for their spec.
pub(crate) fn widgets(plural: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind_of(plural)},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

/// `widgets` are `Widget`s.
pub(crate) fn kind_of(plural: &str) -> String {
    let singular = plural.strip_suffix('s').unwrap_or(plural);
    let (first, rest) = singular.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}
