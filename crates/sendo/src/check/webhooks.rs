//! Whether the API server calls the program's webhooks, and reaches them.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration,
    WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use serde_json::json;

use super::{Options, Report};
use crate::error::Result;
use crate::manager::Manager;
use crate::object::{Kind, ObjectExt, Typed};

/// How a program of this library begins when it answers that it cannot convert an object
/// (`webhook/convert.rs`).
const CANNOT_CONVERT: &str = "failed: cannot convert ";

pub(super) async fn check(
    manager: &Manager,
    client: &Client,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let wanted = manager.webhook_manifests(&options.namespace, &BTreeMap::new());
    let Some(service) = &wanted.service else {
        return Ok(());
    };
    let before = report.findings.len();
    let apply = format!(
        "apply what `{} manifests` prints, or `sendo deploy`",
        manager.name()
    );
    let mut reached = Vec::new();
    if let Some(wanted) = &wanted.mutating {
        reached.push(check_configuration(client, wanted, &apply, report).await?);
    }
    if let Some(wanted) = &wanted.validating {
        reached.push(check_configuration(client, wanted, &apply, report).await?);
    }
    // A program that is run by hand registers its own address, and has no Service.
    if reached.is_empty() || !reached.iter().all(|one| *one == ReachedBy::Url) {
        check_service(client, service.name(), &options.namespace, &apply, report).await?;
    }
    for definition in manager.definitions() {
        call(client, definition, report).await?;
    }
    if report.findings.len() == before {
        report
            .passed
            .push("the API server calls the program's webhooks".to_owned());
    }
    Ok(())
}

/// A configuration of either phase.
trait Configuration: Typed {
    fn parts(&self) -> BTreeMap<&str, (&WebhookClientConfig, &[RuleWithOperations])>;
}

macro_rules! configuration {
    ($kind:ty) => {
        impl Configuration for $kind {
            fn parts(&self) -> BTreeMap<&str, (&WebhookClientConfig, &[RuleWithOperations])> {
                let webhooks = self.webhooks.iter().flatten();
                let part = webhooks.map(|one| {
                    let rules = one.rules.as_deref().unwrap_or_default();
                    (&*one.name, (&one.client_config, rules))
                });
                part.collect()
            }
        }
    };
}

configuration!(MutatingWebhookConfiguration);
configuration!(ValidatingWebhookConfiguration);

/// How the cluster's configuration reaches all webhooks of a phase.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReachedBy {
    Service,
    Url,
}

async fn check_configuration<C: Configuration>(
    client: &Client,
    wanted: &C,
    apply: &str,
    report: &mut Report,
) -> Result<ReachedBy> {
    let about = format!("{} {}", Kind::of::<C>().kind, wanted.name());
    let found = match Api::<C>::all(client.clone()).get_opt(wanted.name()).await {
        Ok(Some(found)) => found,
        Ok(None) => {
            report.error(
                &about,
                "it is not in the cluster: nothing calls the webhooks",
                apply,
            );
            return Ok(ReachedBy::Service);
        }
        Err(error) => {
            report.unreadable(&about, error)?;
            return Ok(ReachedBy::Service);
        }
    };
    let (wanted, found) = (wanted.parts(), found.parts());
    for (name, (config, rules)) in &wanted {
        let Some((known, known_rules)) = found.get(name) else {
            report.error(&about, format!("it lacks the webhook {name}"), apply);
            continue;
        };
        if known.url.is_none() && known.service != config.service {
            report.error(
                &about,
                format!("{name} calls another Service than the program's"),
                apply,
            );
        }
        if known
            .ca_bundle
            .as_ref()
            .is_none_or(|bundle| bundle.0.is_empty())
        {
            report.error(
                &about,
                format!("{name} has no caBundle, so the API server trusts no certificate of it"),
                "start the program, which adds it; with cert-manager, see why it does not",
            );
        }
        // The API server fills in the scope.
        let told = |rule: &RuleWithOperations| {
            let mut rule = rule.clone();
            rule.scope.get_or_insert_with(|| "*".to_owned());
            rule
        };
        if rules.iter().map(told).ne(known_rules.iter().map(told)) {
            report.error(
                &about,
                format!("{name} has other rules than the program's"),
                apply,
            );
        }
    }
    for name in found.keys().filter(|name| !wanted.contains_key(*name)) {
        report.error(
            &about,
            format!("{name} is a webhook that the program does not have, and its calls fail"),
            apply,
        );
    }
    let mut configs = found.values().map(|(config, _)| config);
    Ok(match configs.all(|config| config.url.is_some()) {
        true => ReachedBy::Url,
        false => ReachedBy::Service,
    })
}

async fn check_service(
    client: &Client,
    name: &str,
    namespace: &str,
    apply: &str,
    report: &mut Report,
) -> Result<()> {
    let about = format!("Service {namespace}/{name}");
    match Api::<Service>::namespaced(client.clone(), namespace)
        .get_opt(name)
        .await
    {
        Ok(Some(_)) => {}
        Ok(None) => {
            report.error(&about, "it is not in the cluster", apply);
            return Ok(());
        }
        Err(error) => return report.unreadable(&about, error),
    }
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), namespace);
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    let slices = match slices.list(&of_service).await {
        Ok(slices) => slices,
        Err(error) => return report.unreadable(&about, error),
    };
    // The types of one release have the list always, those of another may leave it out.
    let slices = serde_json::to_value(slices.items)?;
    let slices = slices.as_array().into_iter().flatten();
    let mut endpoints =
        slices.flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let is_ready = endpoints.any(|endpoint| endpoint["conditions"]["ready"] != false);
    if !is_ready {
        report.error(
            &about,
            "no pod behind it is ready: what the webhooks are asked about is refused",
            format!(
                "see why the program's pods are not: `kubectl --namespace {namespace} get pods`"
            ),
        );
    }
    Ok(())
}

/// Has the API server call the webhooks of a kind, by a creation that is not stored. Webhooks of
/// the library have no side effects then.
async fn call(
    client: &Client,
    definition: &CustomResourceDefinition,
    report: &mut Report,
) -> Result<()> {
    let spec = &definition.spec;
    for version in spec.versions.iter().filter(|version| version.served) {
        let resource = ApiResource {
            group: spec.group.clone(),
            version: version.name.clone(),
            api_version: format!("{}/{}", spec.group, version.name),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
        };
        let api: Api<DynamicObject> = match spec.scope.as_str() {
            "Cluster" => Api::all_with(client.clone(), &resource),
            _ => Api::namespaced_with(client.clone(), "default", &resource),
        };
        let object = DynamicObject::new("sendo-check", &resource).data(json!({"spec": {}}));
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let Err(kube::Error::Api(status)) = api.create(&dry_run, &object).await else {
            continue;
        };
        if is_unreached(&status.message) {
            report.error(
                &format!("webhooks of {}", definition.name()),
                format!("the API server does not reach them: {}", status.message),
                "see that the program runs, that its certificate is trusted, and that no network policy or firewall is in between",
            );
            return Ok(());
        }
    }
    Ok(())
}

/// Whether a call failed on its way. What is wrong with the object itself was to be expected, and
/// told by the program that was reached.
fn is_unreached(message: &str) -> bool {
    let has = |words: &str| message.contains(words);
    has("failed calling webhook") || has("conversion webhook for") && !has(CANNOT_CONVERT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_refuses_the_object_was_reached() {
        let conversion = "conversion webhook for example.dev/v1, Kind=Bar failed: ";
        for (message, unreached) in [
            (
                "Internal error occurred: failed calling webhook \"a.b.c\": connection refused",
                true,
            ),
            (
                &format!("{conversion}Post \"https://a.b.svc:443/convert?timeout=30s\": refused"),
                true,
            ),
            (
                &format!("{conversion}cannot convert Bar \"a\": missing field `x`"),
                false,
            ),
            ("admission webhook \"a.b.c\" denied the request: no", false),
        ] {
            assert_eq!(is_unreached(message), unreached, "{message}");
        }
    }
}
