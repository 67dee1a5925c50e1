//! Publishes the API server's certificate authority to every namespace, as the
//! ConfigMap `kube-root-ca.crt` with which pods verify the server.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/certificates/rootcacertpublisher/publisher.go`: `syncNamespace`

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sendo::cache::{FieldSelector, Selection};
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{Action, Context, Controller, ObjectExt, ObjectKey, Reconcile, Result};

const NAME: &str = "kube-root-ca.crt";

/// The annotation that tells people what the ConfigMap is for, and what it says.
const DESCRIPTION: (&str, &str) = (
    "kubernetes.io/description",
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
     internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.",
);

/// The controller that publishes `authority`, in PEM.
pub fn controller(authority: &str) -> Controller {
    let by_name = Selection::fields(FieldSelector::equal("metadata.name", NAME));
    let published = kind::<ConfigMap>().selecting(by_name);
    Controller::new::<Namespace>()
        .named("root-ca-certificate-publisher-controller")
        .watches(
            published,
            map_object(|map: &ConfigMap, _| map.namespace().map(ObjectKey::cluster)),
        )
        .reconcile(Publisher {
            data: [("ca.crt".to_owned(), authority.to_owned())].into(),
        })
}

struct Publisher {
    data: BTreeMap<String, String>,
}

impl Reconcile<Namespace> for Publisher {
    async fn reconcile(&self, namespace: Arc<Namespace>, cx: Context) -> Result<Action> {
        if namespace.is_being_deleted() {
            return Ok(Action::done());
        }
        let key = ObjectKey::namespaced(namespace.name(), NAME);
        let written = match cx.get::<ConfigMap>(&key) {
            Some(map) if self.is_whole(&map) => return Ok(Action::done()),
            Some(map) => {
                let mut map = ConfigMap::clone(&map);
                map.data = Some(self.data.clone());
                map.metadata
                    .annotations
                    .get_or_insert_default()
                    .extend(description());
                cx.client().update(&map).await
            }
            None => cx.client().create(&self.config_map(namespace.name())).await,
        };
        match written {
            Err(error) if !error.is_already_exists() && !error.is_namespace_gone() => {
                Err(error.into())
            }
            _ => Ok(Action::done()),
        }
    }
}

/// The description as an annotation.
fn description() -> BTreeMap<String, String> {
    let (name, text) = DESCRIPTION;
    [(name.to_owned(), text.to_owned())].into()
}

impl Publisher {
    /// Whether a ConfigMap has the authority, nothing else, and some description.
    fn is_whole(&self, map: &ConfigMap) -> bool {
        let annotations = map.metadata.annotations.as_ref();
        let described = annotations.and_then(|own| own.get(DESCRIPTION.0));
        map.data.as_ref() == Some(&self.data) && described.is_some_and(|text| !text.is_empty())
    }

    fn config_map(&self, namespace: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(namespace.to_owned()),
                annotations: Some(description()),
                ..ObjectMeta::default()
            },
            data: Some(self.data.clone()),
            ..ConfigMap::default()
        }
    }
}
