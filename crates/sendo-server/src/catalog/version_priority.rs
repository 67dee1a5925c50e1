//! The order of versions: which one of a group clients prefer.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/version/helpers.go`: `CompareKubeAwareVersionStrings`

use std::collections::BTreeMap;

/// Sorts versions as clients prefer them: stable ones before betas before
/// alphas, higher numbers first, other names last.
pub(crate) fn rank(version: &str) -> impl Ord + use<> {
    let parsed = parse_version(version);
    let known = parsed.is_some();
    let (major, stage, minor) = parsed.unwrap_or_default();
    (
        std::cmp::Reverse((known, stage, major, minor)),
        version.to_owned(),
    )
}

/// `v1beta2` as (1, beta, 2).
fn parse_version(version: &str) -> Option<(u64, Stage, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let major = major.parse().ok()?;
    let stages = BTreeMap::from([("alpha", Stage::Alpha), ("beta", Stage::Beta)]);
    if rest.is_empty() {
        return Some((major, Stage::Stable, 0));
    }
    stages.iter().find_map(|(word, stage)| {
        let minor = rest.strip_prefix(word)?;
        Some((major, *stage, minor.parse().ok()?))
    })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    Alpha,
    Beta,
    Stable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ranked_as_kubernetes_prefers_them() {
        let mut versions = [
            "foo10",
            "v1alpha1",
            "v10",
            "v1beta1",
            "v2",
            "foo1",
            "v11alpha2",
            "v3beta1",
            "v1beta2",
        ];
        versions.sort_by_key(|version| rank(version));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v3beta1",
                "v1beta2",
                "v1beta1",
                "v11alpha2",
                "v1alpha1",
                "foo1",
                "foo10"
            ]
        );
    }
}
