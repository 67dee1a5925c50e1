//! The webhooks of all configurations, kept from the store's changes.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/configuration/mutating_webhook_manager.go`: `getMutatingWebhookConfigurations`
//! - `staging/src/k8s.io/apiserver/pkg/admission/configuration/validating_webhook_manager.go`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/accessors.go`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sendo_apimachinery::LabelSelector;
use sendo_apimachinery::admission_expressions::Environment;
use sendo_store::Entry;
use serde_json::Value;

use super::expressions::{self, Expression};
use crate::access::follow::View;
use crate::webhook::ClientConfig;

const MUTATING: &str = "/registry/admissionregistration.k8s.io/mutatingwebhookconfigurations/";
const VALIDATING: &str = "/registry/admissionregistration.k8s.io/validatingwebhookconfigurations/";

/// Where configurations are kept.
pub(crate) const PREFIXES: &[&str] = &[MUTATING, VALIDATING];

/// A webhook of a configuration.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) configuration: String,
    /// Tells webhooks of the same name apart.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) client: ClientConfig,
    /// What requests it is called for.
    pub(crate) rules: Vec<Value>,
    /// Whether a call that fails is no refusal.
    pub(crate) ignores_failure: bool,
    /// Whether a rule matches requests for the same objects in another version too.
    pub(crate) matches_equivalents: bool,
    pub(crate) namespaces: LabelSelector,
    pub(crate) objects: LabelSelector,
    /// Whether it may be called in a dry run.
    pub(crate) takes_dry_run: bool,
    pub(crate) timeout: Duration,
    /// The versions of reviews it takes, the preferred one first.
    pub(crate) review_versions: Vec<String>,
    /// Whether it is called again after another webhook has changed the object.
    pub(crate) is_reinvoked: bool,
    /// What must hold for it to be called.
    pub(crate) conditions: Vec<Expression>,
}

/// All webhooks: those of a configuration in its order, configurations by name.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    by_key: BTreeMap<String, Vec<Arc<Hook>>>,
    mutating: Arc<[Arc<Hook>]>,
    validating: Arc<[Arc<Hook>]>,
}

impl Hooks {
    pub(crate) fn mutating(&self) -> Arc<[Arc<Hook>]> {
        Arc::clone(&self.mutating)
    }

    pub(crate) fn validating(&self) -> Arc<[Arc<Hook>]> {
        Arc::clone(&self.validating)
    }

    /// Whether there is any webhook.
    pub(crate) fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty()
    }

    fn collect(&mut self) {
        let below = |prefix: &str| {
            let configurations = self.by_key.range(prefix.to_owned()..);
            configurations
                .take_while(|(key, _)| key.starts_with(prefix))
                .flat_map(|(_, hooks)| hooks.iter().cloned())
                .collect()
        };
        (self.mutating, self.validating) = (below(MUTATING), below(VALIDATING));
    }
}

impl View for Hooks {
    fn put(&mut self, entry: &Entry) {
        let configuration: Value =
            serde_json::from_slice(&entry.value).expect("stored objects are JSON of ours");
        self.by_key
            .insert(entry.key.to_string(), read(&configuration));
        self.collect();
    }

    fn remove(&mut self, key: &str) {
        self.by_key.remove(key);
        self.collect();
    }
}

fn read(configuration: &Value) -> Vec<Arc<Hook>> {
    let name = text(&configuration["metadata"]["name"]);
    let mut seen = BTreeMap::new();
    let hooks = configuration["webhooks"].as_array();
    let hooks = hooks.into_iter().flatten().map(|hook| {
        let hook_name = text(&hook["name"]);
        let count: &mut usize = seen.entry(hook_name.clone()).or_default();
        let id = format!("{name}/{hook_name}/{count}");
        *count += 1;
        Arc::new(read_hook(hook, &name, hook_name, id))
    });
    hooks.collect()
}

fn read_hook(hook: &Value, configuration: &str, name: String, id: String) -> Hook {
    let selector = |member: &str| {
        let selector =
            LabelSelector::from_object(Some(&hook[member]).filter(|own| own.is_object()));
        // Validation has refused others; an absent one selects everything.
        match hook[member].is_object() {
            true => selector.unwrap_or_else(|_| LabelSelector::nothing()),
            false => LabelSelector::everything(),
        }
    };
    Hook {
        configuration: configuration.to_owned(),
        id,
        name,
        client: ClientConfig::read(&hook["clientConfig"]),
        rules: list(&hook["rules"]).to_vec(),
        ignores_failure: hook["failurePolicy"] == "Ignore",
        matches_equivalents: hook["matchPolicy"] == "Equivalent",
        namespaces: selector("namespaceSelector"),
        objects: selector("objectSelector"),
        takes_dry_run: matches!(hook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
        timeout: Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(10)),
        review_versions: texts(&hook["admissionReviewVersions"]),
        is_reinvoked: hook["reinvocationPolicy"] == "IfNeeded",
        conditions: match &hook["matchConditions"] {
            Value::Null => Vec::new(),
            all => expressions::conditions(&Environment::new(false), all, None),
        },
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    list(value).iter().map(text).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
