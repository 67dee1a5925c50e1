//! ServiceAccount: every new pod has an account, and its token.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/serviceaccount/admission.go`: `Admit`, `Validate`

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use sendo_apimachinery::{Status, go_quote, names};
use serde_json::{Value, json};

use super::{Attributes, Mutate, Operation, Plugin, lookup};
use crate::catalog::keys::Keys;
use crate::kinds::pod;
use crate::kinds::value::{Read, Write};
use crate::state::call::Call;

/// Where the token of a pod's service account is mounted.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// What the volumes of such tokens are called, with a suffix.
const VOLUME_PREFIX: &str = "kube-api-access-";
/// An account with this annotation lets its pods use its own secrets only.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

const DEFAULT: &str = "default";
/// A controller makes the default account of a new namespace: it is waited for so often, so long.
const ATTEMPTS: u32 = 10;
const INTERVAL_MILLIS: std::ops::Range<u64> = 100..200;

pub(super) const SERVICE_ACCOUNT: Plugin = Plugin {
    name: "ServiceAccount",
    handles: |attributes| {
        attributes.operation == Operation::Create && attributes.is_of("", "pods", "")
    },
    mutate: Some(Mutate::Later(|attributes, pod| {
        Box::pin(mutate(attributes, pod))
    })),
    validate: None,
};

/// Gives a new pod its account, the account's token and its pull secrets.
async fn mutate(attributes: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
    let call = attributes.call;
    if pod.at("spec").is_null() {
        // What is no pod at all, validation tells.
        return Ok(());
    }
    if pod::is_mirror(pod) {
        return validate_mirror(attributes, pod);
    }
    let spec = pod.object("spec");
    if spec.text("serviceAccountName").is_empty() {
        let old_spelling = spec.text("serviceAccount").to_owned();
        spec.set("serviceAccountName", old_spelling);
    }
    spec.default_if_zero("serviceAccountName", DEFAULT);
    let name = spec.text("serviceAccountName").to_owned();
    spec.set("serviceAccount", name.as_str());

    let namespace = call.namespace().unwrap_or_default();
    let faults = names::path_segment(&name);
    if !faults.is_empty() {
        let why = format_args!(
            "error looking up service account {namespace}/{name}: invalid resource name {}: [{}]",
            go_quote(&name),
            faults.join(" ")
        );
        return Err(attributes.forbid(pod, why));
    }
    let Some(account) = find(call, namespace, &name).await? else {
        if !call.server.require_service_accounts {
            return Ok(());
        }
        let why = format_args!(
            "error looking up service account {namespace}/{name}: serviceaccount {} not found",
            go_quote(&name)
        );
        return Err(attributes.forbid(pod, why));
    };
    let spec = pod.object("spec");
    let asked = spec.switch("automountServiceAccountToken");
    if asked
        .or(account.switch("automountServiceAccountToken"))
        .unwrap_or(true)
    {
        mount_token(call, spec);
    }
    if spec.items("imagePullSecrets").is_empty() && !account.items("imagePullSecrets").is_empty() {
        spec.copy_from("imagePullSecrets", &account);
    }
    let enforced = account.at("metadata").at("annotations").text(ENFORCE);
    if matches!(enforced, "1" | "t" | "T" | "true" | "TRUE" | "True")
        && let Some(why) = foreign_secret(pod.at("spec"), &account)
    {
        return Err(attributes.forbid(pod, why));
    }
    Ok(())
}

/// A node's own pods are what the node says, and use nothing of the cluster.
fn validate_mirror(attributes: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
    let spec = pod.at("spec");
    let why = if ["serviceAccountName", "serviceAccount"]
        .iter()
        .any(|key| !spec.text(key).is_empty())
    {
        "a mirror pod may not reference service accounts"
    } else if pod::uses_secrets(spec) {
        "a mirror pod may not reference secrets"
    } else if projections(spec).any(|source| source.has("serviceAccountToken")) {
        "a mirror pod may not use ServiceAccountToken volume projections"
    } else {
        return Ok(());
    };
    Err(attributes.forbid(pod, why))
}

fn projections(spec: &Value) -> impl Iterator<Item = &Value> {
    let volumes = spec.items("volumes").iter();
    volumes.flat_map(|volume| volume.at("projected").items("sources"))
}

async fn find(call: &Call<'_>, namespace: &str, name: &str) -> Result<Option<Arc<Value>>, Status> {
    let keys = Keys::new("", "serviceaccounts", true);
    let attempts = match name {
        DEFAULT if call.server.require_service_accounts => ATTEMPTS,
        _ => 1,
    };
    let world = &call.server.world;
    let interval = Duration::from_millis(world.random().below(INTERVAL_MILLIS));
    for attempt in 0..attempts {
        if attempt > 0 {
            world.clock().sleep(interval).await;
        }
        if let Some(account) = lookup::get(call, &keys, Some(namespace), name).await? {
            return Ok(Some(account));
        }
    }
    Ok(None)
}

/// Mounts the account's token into every container that has nothing at its place.
fn mount_token(call: &Call<'_>, spec: &mut Value) {
    let names = spec
        .items("volumes")
        .iter()
        .map(|volume| volume.text("name"));
    let present = names
        .clone()
        .find(|name| name.starts_with(VOLUME_PREFIX))
        .map(str::to_owned);
    let name = present.clone().unwrap_or_else(|| {
        let suffix = call.server.world.random().name_suffix(5);
        format!("{VOLUME_PREFIX}{suffix}")
    });
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec.items_mut(list) {
            let mut mounts = container.items("volumeMounts").to_vec();
            if mounts.iter().any(|mount| mount["mountPath"] == TOKEN_PATH) {
                continue;
            }
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
            container.set("volumeMounts", mounts);
            mounted = true;
        }
    }
    if mounted && present.is_none() {
        let mut volumes = spec.items("volumes").to_vec();
        volumes.push(token_volume(&name));
        spec.set("volumes", volumes);
    }
}

/// The token itself, what it is verified with, and the pod's namespace.
fn token_volume(name: &str) -> Value {
    let mut volume = TOKEN_VOLUME.clone();
    volume["name"] = name.into();
    volume
}

/// What all such volumes have: a copy is much less work than making one, which every pod needs.
static TOKEN_VOLUME: LazyLock<Value> = LazyLock::new(|| {
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    json!({
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                // An hour, and some seconds by which tokens for this volume are known.
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
            ],
        },
    })
});

/// Why a pod may not use a secret that its account does not name, if it uses one.
fn foreign_secret(spec: &Value, account: &Value) -> Option<String> {
    let owner = account.at("metadata").text("name");
    let names = |list: &str, name: &str| {
        account
            .items(list)
            .iter()
            .any(|secret| secret.text("name") == name)
    };
    for volume in spec.items("volumes").iter().filter(|v| v.has("secret")) {
        let name = volume.at("secret").text("secretName");
        if !names("secrets", name) {
            return Some(format!(
                "volume with secret.secretName=\"{name}\" is not allowed because service account {owner} \
                 does not reference that secret"
            ));
        }
    }
    for (list, what) in [
        ("initContainers", "init container"),
        ("containers", "container"),
    ] {
        for container in spec.items(list) {
            if let Some((place, name)) = secret_in_env(container, |name| names("secrets", name)) {
                let container = container.text("name");
                return Some(format!(
                    "{what} {container} with {place} referencing secret.secretName=\"{name}\" is not allowed \
                     because service account {owner} does not reference that secret"
                ));
            }
        }
    }
    let mut pulls = spec.items("imagePullSecrets").iter().enumerate();
    let (i, pull) = pulls.find(|(_, pull)| !names("imagePullSecrets", pull.text("name")))?;
    Some(format!(
        "imagePullSecrets[{i}].name=\"{}\" is not allowed because service account {owner} \
         does not reference that imagePullSecret",
        pull.text("name")
    ))
}

fn secret_in_env(container: &Value, known: impl Fn(&str) -> bool) -> Option<(String, String)> {
    for variable in container.items("env") {
        let secret = variable.at("valueFrom").at("secretKeyRef");
        if !secret.is_null() && !known(secret.text("name")) {
            let place = format!("envVar {}", variable.text("name"));
            return Some((place, secret.text("name").to_owned()));
        }
    }
    let sources = container.items("envFrom").iter();
    let mut secrets = sources.map(|source| source.at("secretRef"));
    let foreign = secrets.find(|secret| !secret.is_null() && !known(secret.text("name")))?;
    Some(("envFrom".to_owned(), foreign.text("name").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_can_keep_its_pods_to_its_own_secrets() {
        let account = json!({"metadata": {"name": "a"}, "secrets": [{"name": "own"}]});
        let variable =
            json!({"name": "V", "valueFrom": {"secretKeyRef": {"name": "other", "key": "k"}}});
        let cases = [
            (
                json!({"volumes": [{"secret": {"secretName": "own"}}]}),
                None,
            ),
            (
                json!({"volumes": [{"secret": {"secretName": "other"}}]}),
                Some(
                    "volume with secret.secretName=\"other\" is not allowed because service account a does not reference that secret",
                ),
            ),
            (
                json!({"initContainers": [{"name": "i", "env": [variable]}]}),
                Some(
                    "init container i with envVar V referencing secret.secretName=\"other\" is not allowed because service account a does not reference that secret",
                ),
            ),
            (
                json!({"imagePullSecrets": [{"name": "own"}]}),
                Some(
                    "imagePullSecrets[0].name=\"own\" is not allowed because service account a does not reference that imagePullSecret",
                ),
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(foreign_secret(&spec, &account).as_deref(), expected);
        }
    }
}
