//! How operations and tags are named after a group.

/// The text for a group or group version in names.
pub(super) struct Names {
    /// In operation ids, as `RbacAuthorizationV1`.
    pub(super) id: String,
    /// The tag, as `rbacAuthorization_v1`.
    pub(super) tag: String,
}

impl Names {
    pub(super) fn of_group(group: &str) -> Self {
        let short = match group {
            "" => "core",
            group => group.strip_suffix(".k8s.io").unwrap_or(group),
        };
        let id: String = short.split(['.', '-']).map(capitalized).collect();
        let tag = lower_first(&id);
        Self { id, tag }
    }

    pub(super) fn of_version(group: &str, version: &str) -> Self {
        let Self { id, tag } = Self::of_group(group);
        Self {
            id: id + &capitalized(version),
            tag: format!("{tag}_{version}"),
        }
    }
}

/// With the first character in upper case.
pub(super) fn capitalized(word: &str) -> String {
    let mut characters = word.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters).collect()
}

fn lower_first(word: &str) -> String {
    let mut characters = word.chars();
    let first = characters.next().into_iter().flat_map(char::to_lowercase);
    first.chain(characters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_named_by_its_labels() {
        for (group, id, tag) in [
            ("", "CoreV1", "core_v1"),
            ("apps", "AppsV1", "apps_v1"),
            (
                "rbac.authorization.k8s.io",
                "RbacAuthorizationV1",
                "rbacAuthorization_v1",
            ),
            (
                "stable.example.com",
                "StableExampleComV1",
                "stableExampleCom_v1",
            ),
        ] {
            let names = Names::of_version(group, "v1");
            assert_eq!((&*names.id, &*names.tag), (id, tag));
        }
    }
}
