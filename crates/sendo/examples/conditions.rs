//! Status and conditions: a `Subscription` is ready when the ConfigMap that it
//! names is there. Its status says so, since when, and why not; an Event tells
//! of each turn.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use sendo::EventSeverity::{Normal, Warning};
use sendo::conditions::{self, News};
use sendo::handler::map_object;
use sendo::{Action, Context, Controller, Index, Manager, ObjectExt, ObjectKey, Result, source};
use serde::{Deserialize, Serialize};

/// Something that needs a ConfigMap.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "example.dev",
    version = "v1",
    kind = "Subscription",
    namespaced,
    status = "SubscriptionStatus"
)]
pub struct SubscriptionSpec {
    /// The name of the ConfigMap, in the same namespace.
    pub topic: String,
}

/// What the controller found.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SubscriptionStatus {
    /// `Ready`, in the form that `kubectl wait --for=condition=Ready` reads.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// Subscriptions by the key of the ConfigMap they name.
static BY_TOPIC: Index<Subscription, ObjectKey> =
    Index::new("by-topic", |sub| Some(sub.key_beside(&sub.spec.topic)));

/// The program: Subscriptions, and the ConfigMaps that they name.
pub fn manager() -> Manager {
    let controller = Controller::new::<Subscription>()
        .watches(
            source::kind::<ConfigMap>(),
            map_object(|map: &ConfigMap, cx| {
                cx.list::<Subscription>().by(&BY_TOPIC, map.key()).keys()
            }),
        )
        .index(&BY_TOPIC)
        .reconcile(reconcile);
    Manager::new("subscriptions")
        .defines::<Subscription>()
        .controller(controller)
}

async fn reconcile(sub: Arc<Subscription>, cx: Context) -> Result<Action> {
    let topic = &sub.spec.topic;
    let is_there = cx.get::<ConfigMap>(sub.key_beside(topic)).is_some();
    let (kind, reason, message) = match is_there {
        true => (Normal, "TopicFound", format!("{topic} is there")),
        false => (Warning, "TopicMissing", format!("there is no {topic}")),
    };
    // With the time and the generation of the object.
    let ready = cx.condition(&sub, "Ready", is_there, reason, &message);
    // Writes through the status subresource, and only if the status differs. The
    // time of transition stays while the condition holds, so this comes to rest.
    let news = cx.status(&sub, |status| {
        conditions::set(&mut status.conditions, ready)
    });
    if news.await? >= Some(News::Status) {
        cx.event(kind, reason, message);
    }
    Ok(Action::done())
}

#[tokio::main]
async fn main() -> Result<()> {
    manager().run_from_args().await
}
