//! Names of kinds and resources: group, version, kind.

use std::fmt;

/// A group and version, as in an object's `apiVersion`.
///
/// Displays as `v1` in the core group (whose name is empty) and `apps/v1` elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// The group; empty for the core group.
    pub group: String,
    /// The version, as `v1`.
    pub version: String,
}

impl GroupVersion {
    /// From its parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        GroupVersion {
            group: group.into(),
            version: version.into(),
        }
    }

    /// Reads an `apiVersion`; `None` if it has more than one slash.
    ///
    /// The empty text is the empty group and version, as in Kubernetes.
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            None => Some(GroupVersion::new("", api_version)),
            Some((_, version)) if version.contains('/') => None,
            Some((group, version)) => Some(GroupVersion::new(group, version)),
        }
    }

    /// The kind of that name in this group and version.
    pub fn with_kind(&self, kind: impl Into<String>) -> GroupVersionKind {
        GroupVersionKind {
            group: self.group.clone(),
            version: self.version.clone(),
            kind: kind.into(),
        }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// A kind in one version of its group.
///
/// Displays as Kubernetes' messages do: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// The group; empty for the core group.
    pub group: String,
    /// The version, as `v1`.
    pub version: String,
    /// The kind, as `Deployment`.
    pub kind: String,
}

impl GroupVersionKind {
    /// From its parts.
    pub fn new(
        group: impl Into<String>,
        version: impl Into<String>,
        kind: impl Into<String>,
    ) -> Self {
        GroupVersionKind {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// Group and version alone.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// Group and kind alone.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.group, &self.kind)
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// A kind without a version, as validation errors name it.
///
/// Displays as `Pod`, `Deployment.apps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// The group; empty for the core group.
    pub group: String,
    /// The kind, as `Deployment`.
    pub kind: String,
}

impl GroupKind {
    /// From its parts.
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        GroupKind {
            group: group.into(),
            kind: kind.into(),
        }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        qualified(f, &self.kind, &self.group)
    }
}

/// A resource without a version, as most errors name it.
///
/// Displays as `pods`, `deployments.apps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// The group; empty for the core group.
    pub group: String,
    /// The plural name, as `deployments`.
    pub resource: String,
}

impl GroupResource {
    /// From its parts.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        GroupResource {
            group: group.into(),
            resource: resource.into(),
        }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        qualified(f, &self.resource, &self.group)
    }
}

fn qualified(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    f.write_str(name)?;
    if !group.is_empty() {
        write!(f, ".{group}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_in_kubernetes_messages() {
        assert_eq!(GroupResource::new("", "pods").to_string(), "pods");
        assert_eq!(
            GroupResource::new("apps", "deployments").to_string(),
            "deployments.apps"
        );
        assert_eq!(
            GroupKind::new("apps", "Deployment").to_string(),
            "Deployment.apps"
        );
        assert_eq!(
            GroupVersionKind::new("", "v1", "Pod").to_string(),
            "/v1, Kind=Pod"
        );
    }

    #[test]
    fn an_api_version_has_at_most_one_slash() {
        assert_eq!(GroupVersion::parse("v1"), Some(GroupVersion::new("", "v1")));
        assert_eq!(
            GroupVersion::parse("apps/v1"),
            Some(GroupVersion::new("apps", "v1"))
        );
        assert_eq!(GroupVersion::parse(""), Some(GroupVersion::new("", "")));
        assert_eq!(GroupVersion::parse("a/b/c"), None);
        assert_eq!(
            GroupVersion::parse("apps/v1").unwrap().to_string(),
            "apps/v1"
        );
    }
}
