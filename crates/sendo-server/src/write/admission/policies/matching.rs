//! Whether a policy, or its binding, is about a request.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_matcher.go`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/matching/matching.go`: `Matches`

use serde_json::Value;

use super::super::Attributes;
use super::super::matching::{Version, find_rule, matches_namespace, matches_object};
use crate::state::admission::policies::Resources;

/// The version of the request's resource that is matched; `None` if none is.
pub(super) async fn matched(
    attributes: &Attributes<'_>,
    object: &Value,
    resources: &Resources,
) -> Result<Option<Version>, String> {
    // A namespace that is not there matters to those only that are about the request.
    let in_namespace = matches_namespace(attributes, object, &resources.namespaces).await;
    if matches!(in_namespace, Ok(false)) || !matches_object(attributes, object, &resources.objects)
    {
        return Ok(None);
    }
    let equivalents = resources.matches_equivalents;
    let find = |rules: &[Value]| find_rule(attributes, object, rules, equivalents);
    if find(&resources.excluded).is_some() {
        return Ok(None);
    }
    let version = match resources.rules.is_empty() {
        true => Some(Version::of_request(attributes)),
        false => find(&resources.rules),
    };
    match (version, in_namespace) {
        (Some(_), Err(status)) => Err(status.message),
        (version, _) => Ok(version),
    }
}
