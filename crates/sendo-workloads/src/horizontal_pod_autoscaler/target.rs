//! What an autoscaler scales: any kind with a scale subresource.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/podautoscaler/horizontal.go`: `scaleForResourceMappings`
//! - `staging/src/k8s.io/apimachinery/pkg/api/meta/errors.go`: `NoKindMatchError`

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::CrossVersionObjectReference;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use sendo::client::{self, Subresource};
use sendo::{Context, Kind, ObjectKey};
use serde_json::{Value, json};

/// How often a scale is written if others are faster.
const ATTEMPTS: usize = 5;

/// The scale of an object, and the way to write it.
pub(super) struct Target {
    scale: Value,
    subresource: Subresource,
}

/// The kinds that autoscalers name, in the version that the API server prefers. They are asked for
/// once: a list of all kinds is long.
#[derive(Debug, Default)]
pub(super) struct Kinds(Mutex<BTreeMap<(String, String), Kind>>);

impl Kinds {
    /// The kind of this name.
    pub(super) async fn find(&self, cx: &Context, group: &str, kind: &str) -> Result<Kind, String> {
        let name = (group.to_owned(), kind.to_owned());
        if let Some(known) = self.0.lock().get(&name) {
            return Ok(known.clone());
        }
        let served = cx.served_kinds().await.map_err(|error| error.to_string())?;
        let mut kinds = served.into_iter().map(|served| served.kind);
        let found = kinds.find(|known| known.group == group && known.kind == kind);
        let found =
            found.ok_or_else(|| format!("no matches for kind {kind:?} in group {group:?}"))?;
        self.0.lock().insert(name, found.clone());
        Ok(found)
    }

    /// Asks for the kind anew the next time.
    fn forget(&self, group: &str, kind: &str) {
        self.0.lock().remove(&(group.to_owned(), kind.to_owned()));
    }
}

/// Why a target cannot be read.
pub(super) enum Unread {
    /// The reference is wrong.
    Spec(String),
    Other(String),
}

impl Target {
    /// Reads the scale of the object that `reference` names.
    pub(super) async fn read(
        cx: &Context,
        kinds: &Kinds,
        namespace: &str,
        reference: &CrossVersionObjectReference,
    ) -> Result<Self, Unread> {
        let version = reference.api_version.as_deref().unwrap_or_default();
        let group = match version.split('/').collect::<Vec<_>>()[..] {
            [_] => "",
            [group, _] => group,
            _ => {
                let message = format!("unexpected GroupVersion string: {version}");
                return Err(Unread::Spec(message));
            }
        };
        let kind = kinds.find(cx, group, &reference.kind).await;
        let kind = kind.map_err(Unread::Other)?;
        let key = ObjectKey::namespaced(namespace, &reference.name);
        let object = cx.client().of_kind::<DynamicObject>(kind);
        let subresource = object.subresource(&key, "scale");
        let subresource = subresource.map_err(|error| Unread::Other(error.to_string()))?;
        match subresource.get().await {
            Ok(scale) => Ok(Target { scale, subresource }),
            Err(error) if error.is_not_served() => {
                kinds.forget(group, &reference.kind);
                let cause = "the server could not find the requested resource";
                Err(Unread::Other(cause.to_owned()))
            }
            Err(error) => Err(Unread::Other(error.to_string())),
        }
    }

    /// The replicas in the spec.
    pub(super) fn replicas(&self) -> i32 {
        number(&self.scale["spec"]["replicas"])
    }

    /// The replicas that there are.
    pub(super) fn counted(&self) -> i32 {
        number(&self.scale["status"]["replicas"])
    }

    /// The selector of its pods, as text; empty if it has none.
    pub(super) fn selector(&self) -> &str {
        self.scale["status"]["selector"]
            .as_str()
            .unwrap_or_default()
    }

    /// Sets the replicas in the spec, again if somebody else was faster.
    pub(super) async fn scale_to(&mut self, replicas: i32) -> Result<(), client::Error> {
        let mut tried = 1;
        loop {
            self.scale["spec"]["replicas"] = json!(replicas);
            match self.subresource.update(&self.scale).await {
                Ok(written) => {
                    self.scale = written;
                    return Ok(());
                }
                Err(error) if error.is_conflict() && tried < ATTEMPTS => tried += 1,
                Err(error) => return Err(error),
            }
            self.scale = self.subresource.get().await?;
        }
    }
}

fn number(value: &Value) -> i32 {
    let number = value.as_i64().unwrap_or_default();
    number.try_into().unwrap_or(i32::MAX)
}
