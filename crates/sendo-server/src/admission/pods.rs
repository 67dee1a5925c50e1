//! What a pod is given on its way in: service account, priority, tolerations.

use sendo_apimachinery::{Meta, Status, go_quote};
use sendo_store::{At, KeyRange};
use serde_json::{Value, json};

use crate::call::{Call, backend};
use crate::keys::Keys;

/// Where the token of a pod's service account is mounted.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Nodes that may come back: pods stay on them for so long.
const PATIENCE_SECONDS: i64 = 300;
const TROUBLES: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

/// Completes a new pod.
pub(super) async fn complete(call: &Call<'_>, pod: &mut Value) -> Result<(), Status> {
    if !pod["spec"].is_object() {
        // Validation tells what is missing.
        return Ok(());
    }
    service_account(call, pod).await?;
    priority(call, pod).await?;
    tolerations(pod);
    Ok(())
}

/// Completes a pod that is written again: what was computed stays computed.
pub(super) fn complete_again(new: &mut Value, old: &Value) {
    for member in ["priority", "preemptionPolicy"] {
        let was = &old["spec"][member];
        if new["spec"].get(member).is_none_or(Value::is_null) && !was.is_null() {
            new["spec"][member] = was.clone();
        }
    }
    tolerations(new);
}

fn refuse(call: &Call<'_>, pod: &Value, why: impl std::fmt::Display) -> Status {
    Status::forbidden(&call.resource.group_resource(), Meta::of(pod).name(), why)
}

async fn service_account(call: &Call<'_>, pod: &mut Value) -> Result<(), Status> {
    let spec = &mut pod["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut name = text(&spec["serviceAccountName"]);
    if name.is_empty() {
        name = text(&spec["serviceAccount"]);
    }
    if name.is_empty() {
        name = "default".to_owned();
    }
    spec["serviceAccountName"] = name.as_str().into();
    spec["serviceAccount"] = name.as_str().into();

    let namespace = call.namespace().unwrap_or_default();
    let key = Keys::new("", "serviceaccounts", true).object(Some(namespace), &name);
    let found = call
        .server
        .store
        .get(&key, At::Latest)
        .await
        .map_err(backend)?;
    let Some(entry) = found.entry else {
        if !call.server.require_service_accounts {
            return Ok(());
        }
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount {} not found",
            go_quote(&name)
        );
        return Err(refuse(call, pod, why));
    };
    let account: Value =
        serde_json::from_slice(&entry.value).expect("stored objects are JSON of ours");
    let spec = &mut pod["spec"];
    let asked = spec["automountServiceAccountToken"].as_bool();
    if asked
        .or(account["automountServiceAccountToken"].as_bool())
        .unwrap_or(true)
    {
        mount_token(call, spec);
    }
    let has_secrets = spec["imagePullSecrets"]
        .as_array()
        .is_some_and(|secrets| !secrets.is_empty());
    if !has_secrets && let Some(secrets) = account.get("imagePullSecrets") {
        spec["imagePullSecrets"] = secrets.clone();
    }
    Ok(())
}

/// Mounts the account's token into every container that has nothing at its place.
fn mount_token(call: &Call<'_>, spec: &mut Value) {
    let name = format!(
        "kube-api-access-{}",
        call.server.world.random().name_suffix(5)
    );
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mounts = container["volumeMounts"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            if mounts.iter().any(|mount| mount["mountPath"] == TOKEN_PATH) {
                continue;
            }
            let mut mounts = mounts.to_vec();
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
            container["volumeMounts"] = mounts.into();
            mounted = true;
        }
    }
    if mounted {
        let mut volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
        volumes.push(token_volume(&name));
        spec["volumes"] = volumes.into();
    }
}

/// The token itself, what it is verified with, and the pod's namespace.
fn token_volume(name: &str) -> Value {
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    json!({
        "name": name,
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
}

async fn priority(call: &Call<'_>, pod: &mut Value) -> Result<(), Status> {
    let wanted = pod["spec"]["priorityClassName"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let keys = Keys::new("scheduling.k8s.io", "priorityclasses", false);
    let class = if wanted.is_empty() {
        default_class(call, &keys).await?
    } else {
        let key = keys.object(None, &wanted);
        let found = call
            .server
            .store
            .get(&key, At::Latest)
            .await
            .map_err(backend)?;
        let Some(entry) = found.entry else {
            return Err(refuse(
                call,
                pod,
                format_args!("no PriorityClass with name {wanted} was found"),
            ));
        };
        serde_json::from_slice(&entry.value).expect("stored objects are JSON of ours")
    };
    let computed = class["value"].as_i64().unwrap_or(0);
    let given = pod["spec"]["priority"].as_i64();
    if let Some(given) = given.filter(|given| *given != computed) {
        let why = format_args!(
            "the integer value of priority ({given}) must not be provided in pod spec; \
             priority admission controller computed {computed} from the given PriorityClass name"
        );
        return Err(refuse(call, pod, why));
    }
    let policy = class["preemptionPolicy"]
        .as_str()
        .unwrap_or("PreemptLowerPriority");
    let asked = pod["spec"]["preemptionPolicy"].as_str().unwrap_or(policy);
    if asked != policy {
        let why = format_args!(
            "the string value of PreemptionPolicy ({asked}) must not be provided in pod spec; \
             priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(refuse(call, pod, why));
    }
    let name = Meta::of(&class).name();
    if !name.is_empty() {
        pod["spec"]["priorityClassName"] = name.into();
    }
    pod["spec"]["priority"] = computed.into();
    pod["spec"]["preemptionPolicy"] = policy.into();
    Ok(())
}

/// The class of pods that name none: the lowest of those that say so, if any does.
async fn default_class(call: &Call<'_>, keys: &Keys) -> Result<Value, Status> {
    let range = KeyRange::prefix(&keys.collection(None));
    let page = call
        .server
        .store
        .range(range, At::Latest, None)
        .await
        .map_err(backend)?;
    let classes = page
        .entries
        .iter()
        .filter_map(|entry| serde_json::from_slice::<Value>(&entry.value).ok());
    let defaults = classes.filter(|class| class["globalDefault"] == true);
    Ok(defaults
        .min_by_key(|class| class["value"].as_i64())
        .unwrap_or_default())
}

/// A pod stays for a while on a node that is in trouble, unless it says otherwise.
fn tolerations(pod: &mut Value) {
    let own = pod["spec"]["tolerations"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let is_tolerated = |trouble: &str| {
        own.iter().any(|toleration| {
            let (key, effect) = (&toleration["key"], &toleration["effect"]);
            let empty = |value: &Value| value.as_str().is_none_or(str::is_empty);
            (*key == trouble || empty(key)) && (*effect == "NoExecute" || empty(effect))
        })
    };
    let missing = TROUBLES
        .iter()
        .filter(|trouble| !is_tolerated(trouble))
        .map(|trouble| {
            json!({
                "key": trouble,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": PATIENCE_SECONDS,
            })
        });
    let all: Vec<Value> = own.iter().cloned().chain(missing).collect();
    pod["spec"]["tolerations"] = all.into();
}
