//! The tokens that a node asks for: those of accounts of pods that it runs, for an audience that a
//! volume of the pod names, or that the node may ask for.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/noderestriction/admission.go`: `admitServiceAccount`,
//!   `validateNodeServiceAccountAudience`, `podReferencesAudience`

use std::sync::Arc;

use sendo_apimachinery::{Meta, Status, go_quote};
use serde_json::Value;

use super::{NodeWrite, Operation, is_on};
use crate::access::authorise::{self, Decision, Requested, ResourceAttributes};
use crate::kinds::value::Read;

pub(super) async fn check(write: &NodeWrite<'_>) -> Result<(), Status> {
    if write.operation() != Operation::Create {
        return Ok(());
    }
    let bound = write.object.at("spec").at("boundObjectRef");
    let (kind, name) = (
        (bound.text("apiVersion"), bound.text("kind")),
        bound.text("name"),
    );
    if kind != ("v1", "Pod") || name.is_empty() {
        return write.refuse("node requested token not bound to a pod");
    }
    let uid = bound.text("uid");
    if uid.is_empty() {
        return write.refuse("node requested token with a pod binding without a uid");
    }
    let pod = write.stored_pod(name).await?;
    if Meta::new(&pod).uid() != uid {
        return write.refuse(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. \
             The object might have been deleted and then recreated"
        ));
    }
    if !is_on(&pod, write.node) {
        return write.refuse("node requested token bound to a pod scheduled on a different node");
    }
    check_audience(write, &pod).await
}

async fn check_audience(write: &NodeWrite<'_>, pod: &Value) -> Result<(), Status> {
    let audience = match write.object.at("spec").items("audiences") {
        [] => "",
        [audience] => audience.as_str().unwrap_or_default(),
        _ => return write.refuse("node may only request 0 or 1 audiences"),
    };
    let (named, user) = (go_quote(audience), write.attributes.user());
    match names_audience(write, pod, audience).await? {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(fault) => {
            return write.refuse(format!("error validating audience {named}: {fault}"));
        }
    }
    let asked = authorise::Attributes {
        user,
        verb: "request-serviceaccounts-token-audience",
        requested: Requested::Resource(ResourceAttributes {
            resource: audience,
            namespace: write.attributes.call.namespace().unwrap_or_default(),
            name: write.attributes.name(write.object),
            ..ResourceAttributes::default()
        }),
    };
    match authorise::decide(&write.attributes.call.server.access, &asked).await? {
        Decision::Allowed(_) => Ok(()),
        Decision::Refused(_) => write.refuse(format!(
            "audience {named} not found in pod spec volume, {} is not authorized to request \
             tokens for this audience",
            user.name
        )),
    }
}

/// Whether a volume of the pod has a token for an audience: one that is projected, or one that the
/// driver of the volume asks for. Otherwise why that could not be found out, if anything is absent.
async fn names_audience(
    write: &NodeWrite<'_>,
    pod: &Value,
    audience: &str,
) -> Result<Result<bool, String>, Status> {
    let mut faults = Vec::new();
    for volume in pod.at("spec").items("volumes") {
        let sources = volume.at("projected").items("sources");
        let mut tokens = sources
            .iter()
            .filter(|source| source.has("serviceAccountToken"));
        if tokens.any(|token| token.at("serviceAccountToken").text("audience") == audience) {
            return Ok(Ok(true));
        }
        match driver_of(write, pod, volume).await {
            Ok(Some(driver)) if asks_for(&driver, audience) => return Ok(Ok(true)),
            Ok(_) => {}
            Err(status) if status.code == 404 => faults.push(status.message),
            Err(status) => return Err(status),
        }
    }
    Ok(match faults.as_slice() {
        [] => Ok(false),
        [fault] => Err(fault.clone()),
        faults => Err(format!("[{}]", faults.join(", "))),
    })
}

fn asks_for(driver: &Value, audience: &str) -> bool {
    let tokens = driver.at("spec").items("tokenRequests");
    tokens
        .iter()
        .any(|token| token.text("audience") == audience)
}

/// The driver of a volume, by itself or by the claim that it is bound to.
async fn driver_of(
    write: &NodeWrite<'_>,
    pod: &Value,
    volume: &Value,
) -> Result<Option<Arc<Value>>, Status> {
    let meta = Meta::new(pod);
    let claim = if volume.at("ephemeral").has("volumeClaimTemplate") {
        Some(format!("{}-{}", meta.name(), volume.text("name")))
    } else {
        let claim = volume.at("persistentVolumeClaim").at("claimName").as_str();
        claim.map(str::to_owned)
    };
    let driver = match claim {
        Some(claim) => {
            let namespace = Some(meta.namespace());
            let claim = write
                .stored("", "persistentvolumeclaims", namespace, &claim)
                .await?;
            let bound = claim.at("spec").text("volumeName");
            let bound = write.stored("", "persistentvolumes", None, bound).await?;
            bound.at("spec").at("csi").text("driver").to_owned()
        }
        None => volume.at("csi").text("driver").to_owned(),
    };
    match driver.as_str() {
        "" => Ok(None),
        driver => write
            .stored("storage.k8s.io", "csidrivers", None, driver)
            .await
            .map(Some),
    }
}
