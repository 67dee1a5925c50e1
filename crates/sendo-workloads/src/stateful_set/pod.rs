//! The pods of a StatefulSet: their names, labels and volumes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/statefulset/stateful_set_utils.go`: `getParentNameAndOrdinal`,
//!   `newVersionedStatefulSetPod`, `newStatefulSetPod`, `initIdentity`, `updateIdentity`,
//!   `updateStorage`, `identityMatches`

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    self, PersistentVolumeClaimVolumeSource, PodTemplateSpec, Volume,
};
use sendo::ObjectExt;

use super::claims;
use crate::pods::Pod;
use crate::pods::control::from_template;

const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
const REVISION_LABEL: &str = "controller-revision-hash";

/// The ordinal of a pod with that name, if it is one of the StatefulSet's.
pub(super) fn ordinal_in(set: &str, pod: &str) -> Option<i32> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// The name of the revision that a pod has.
pub(super) fn revision(pod: &Pod) -> Option<&str> {
    pod.label(REVISION_LABEL)
}

/// The labels that a pod should have and has not, by which it is known.
pub(super) fn missing_identity(pod: &Pod, ordinal: i32) -> Option<[(&'static str, String); 2]> {
    let is_known = pod.label(NAME_LABEL) == Some(pod.name());
    let labels = [
        (NAME_LABEL, pod.name().to_owned()),
        (INDEX_LABEL, ordinal.to_string()),
    ];
    (!is_known).then_some(labels)
}

/// A pod of the StatefulSet, of the revision with that name and template.
pub(super) fn new(
    set: &StatefulSet,
    template: &PodTemplateSpec,
    revision: &str,
    ordinal: i32,
) -> v1::Pod {
    let mut pod = from_template(set, template);
    let name = format!("{}-{ordinal}", set.name());
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name.clone());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(NAME_LABEL.to_owned(), name.clone());
    labels.insert(INDEX_LABEL.to_owned(), ordinal.to_string());
    labels.insert(REVISION_LABEL.to_owned(), revision.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    let service = set.spec.as_ref().and_then(|spec| spec.service_name.clone());
    spec.subdomain = service.filter(|service| !service.is_empty());
    mount_claims(set, ordinal, spec.volumes.get_or_insert_default());
    spec.volumes.take_if(|volumes| volumes.is_empty());
    pod
}

/// Puts the volumes of claims in the place of those of the same name, before the others.
fn mount_claims(set: &StatefulSet, ordinal: i32, volumes: &mut Vec<Volume>) {
    let templates = claims::templates(set);
    let names: Vec<&str> = templates.iter().map(ObjectExt::name).collect();
    volumes.retain(|volume| !names.contains(&volume.name.as_str()));
    let mounted = templates.iter().map(|template| Volume {
        name: template.name().to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claims::name(set, template, ordinal),
            read_only: None,
        }),
        ..Volume::default()
    });
    volumes.splice(0..0, mounted.collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_ordinal_is_the_last_part_of_the_name() {
        assert_eq!(ordinal_in("web", "web-12"), Some(12));
        assert_eq!(ordinal_in("web", "web-a-12"), None);
        assert_eq!(ordinal_in("web", "web--1"), None);
        assert_eq!(ordinal_in("web", "web-"), None);
        assert_eq!(ordinal_in("web", "other-1"), None);
    }

    #[test]
    fn a_pod_has_its_name_its_service_and_its_claims() {
        let set: StatefulSet = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "a", "uid": "1"},
            "spec": {
                "serviceName": "svc", "selector": {},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                    "containers": [],
                    "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
                }},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
            },
        }))
        .unwrap();
        let template = set.spec.as_ref().unwrap().template.clone();
        let pod = new(&set, &template, "web-abc", 2);
        assert_eq!(pod.name(), "web-2");
        assert_eq!(
            json!(pod.metadata.labels),
            json!({"app": "web", "apps.kubernetes.io/pod-index": "2",
                "controller-revision-hash": "web-abc", "statefulset.kubernetes.io/pod-name": "web-2"})
        );
        assert_eq!(
            json!(pod.spec),
            json!({"containers": [], "hostname": "web-2", "subdomain": "svc", "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-2"}},
                {"name": "tmp", "emptyDir": {}},
            ]})
        );
    }
}
