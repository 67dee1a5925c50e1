//! Applies manifests as a cautious person would.

use http::{Method, Request};
use sendo::Manager;
use sendo::manifests::{Format, Options};
use serde_json::Value;

use crate::cluster::TestCluster;

impl TestCluster {
    /// Applies YAML documents, server-side and with strict validation of their fields: one that the
    /// API does not have, or that is there twice, is an error.
    ///
    /// Returns the objects as the server has them.
    ///
    /// # Panics
    ///
    /// If one is refused; the message is the server's.
    pub async fn apply_manifests(&self, yaml: &str) -> Vec<Value> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)
            .unwrap_or_else(|error| panic!("the manifests are no YAML: {error}"));
        let mut applied = Vec::new();
        for document in documents.iter().filter(|document| !document.is_null()) {
            applied.push(self.apply_strictly(document).await);
        }
        applied
    }

    /// Applies all that the program prints with these options; see
    /// [`TestCluster::apply_manifests`].
    ///
    /// # Panics
    ///
    /// If the program cannot be printed, or an object is refused.
    pub async fn deploy(&self, manager: &Manager, options: &Options) -> Vec<Value> {
        let files = manager.manifests(options, Format::Yaml);
        let files = files.unwrap_or_else(|error| panic!("{error}"));
        self.apply_manifests(&files.to_yaml()).await
    }

    async fn apply_strictly(&self, object: &Value) -> Value {
        let text = |pointer: &str| {
            let text = object.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default()
        };
        let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let root = match version.contains('/') {
            true => format!("/apis/{version}"),
            false => format!("/api/{version}"),
        };
        let resources: Value = self.request(Method::GET, &root, "", Vec::new()).await;
        let resources = resources["resources"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let resource = resources.iter().find(|one| {
            let name = one["name"].as_str().unwrap_or_default();
            one["kind"] == kind && !name.contains('/')
        });
        let resource = resource.unwrap_or_else(|| panic!("{version} has no kind {kind}"));
        let plural = resource["name"].as_str().unwrap_or_default();
        let path = match (resource["namespaced"] == true, text("/metadata/namespace")) {
            (false, _) => format!("{root}/{plural}/{name}"),
            (true, "") => format!("{root}/namespaces/default/{plural}/{name}"),
            (true, namespace) => format!("{root}/namespaces/{namespace}/{plural}/{name}"),
        };
        let query = "?fieldManager=manifests&fieldValidation=Strict&force=true";
        self.request(Method::PATCH, &path, query, object.to_string().into_bytes())
            .await
    }

    async fn request(&self, method: Method, path: &str, query: &str, body: Vec<u8>) -> Value {
        let request = Request::builder()
            .method(method)
            .uri(format!("{path}{query}"))
            .header("content-type", "application/apply-patch+yaml")
            .body(body)
            .expect("a request");
        let answer = self.kube().request::<Value>(request).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}
