//! Rules of Roles, ClusterRoles, RoleBindings and ClusterRoleBindings. Their effect is in
//! `crate::access::rbac`.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/rbac/validation/validation.go`
//! - `pkg/apis/rbac/v1/defaults.go`
//! - `pkg/registry/rbac/clusterrole/strategy.go`
//! - `pkg/registry/rbac/clusterrolebinding/strategy.go`
//! - `pkg/registry/rbac/role/strategy.go`
//! - `pkg/registry/rbac/rolebinding/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use sendo_apimachinery::selector::LabelSelector;
use serde_json::Value;

use super::Rules;
use super::check::{self, Errors};
use super::ordered::Ordered;
use super::value::{Read, Write};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) const ROLE: Rules = Rules {
    validate: |_, role| validate_role(role, Scope::Namespaced),
    validate_update: |_, new, old| {
        let mut errors = validate_role(new, Scope::Namespaced);
        errors.extend(check::changed_metadata(new, old));
        errors
    },
    create_on_update: true,
    ..Rules::NEUTRAL
};

pub(super) const CLUSTER_ROLE: Rules = Rules {
    validate: |_, role| validate_cluster_role(role),
    validate_update: |_, new, old| {
        let mut errors = validate_cluster_role(new);
        errors.extend(check::changed_metadata(new, old));
        errors
    },
    create_on_update: true,
    ..Rules::NEUTRAL
};

pub(super) const ROLE_BINDING: Rules = Rules {
    default: default_binding,
    validate: |_, binding| validate_binding(binding, Scope::Namespaced),
    validate_update: |_, new, old| validate_binding_update(new, old, Scope::Namespaced),
    create_on_update: true,
    ..Rules::NEUTRAL
};

pub(super) const CLUSTER_ROLE_BINDING: Rules = Rules {
    default: default_binding,
    validate: |_, binding| validate_binding(binding, Scope::Cluster),
    validate_update: |_, new, old| validate_binding_update(new, old, Scope::Cluster),
    create_on_update: true,
    ..Rules::NEUTRAL
};

fn default_binding(binding: &mut Value) {
    binding.object("roleRef").default_if_zero("apiGroup", GROUP);
    for subject in binding.items_mut("subjects") {
        if matches!(subject.text("kind"), "Group" | "User") {
            subject.default_if_zero("apiGroup", GROUP);
        }
    }
}

fn validate_role(role: &Value, scope: Scope) -> Errors {
    let mut errors = check::new_metadata(role, scope, names::path_segment);
    for (i, rule) in role.items("rules").iter().enumerate() {
        self::rule(&mut errors, &Path::new("rules").index(i), rule, scope);
    }
    errors
}

fn rule(errors: &mut Errors, path: &Path, rule: &Value, scope: Scope) {
    if rule.items("verbs").is_empty() {
        errors.push(Error::required(
            &path.child("verbs"),
            "verbs must contain at least one value",
        ));
    }
    let urls = rule.items("nonResourceURLs");
    if !urls.is_empty() {
        let path = path.child("nonResourceURLs");
        if scope == Scope::Namespaced {
            let fault = "namespaced rules cannot apply to non-resource URLs";
            errors.push(Error::invalid(&path, urls.to_vec(), fault));
        }
        if ["apiGroups", "resources", "resourceNames"]
            .iter()
            .any(|key| !rule.items(key).is_empty())
        {
            let fault = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(Error::invalid(&path, urls.to_vec(), fault));
        }
        return;
    }
    for (key, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if rule.items(key).is_empty() {
            let fault = format!("resource rules must supply at least one {what}");
            errors.push(Error::required(&path.child(key), fault));
        }
    }
}

fn validate_cluster_role(role: &Value) -> Errors {
    let mut errors = validate_role(role, Scope::Cluster);
    let aggregation = role.at("aggregationRule");
    if aggregation.is_null() {
        return errors;
    }
    let selectors = aggregation.items("clusterRoleSelectors");
    let path = Path::new("aggregationRule").child("clusterRoleSelectors");
    if selectors.is_empty() {
        let fault = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(Error::required(&path, fault));
    }
    for (i, selector) in selectors.iter().enumerate() {
        let path = path.index(i);
        check::selector(&mut errors, &path, selector);
        if LabelSelector::from_object(Some(selector)).is_err() {
            errors.push(Error::invalid(
                &path,
                Value::Null,
                "invalid label selector.",
            ));
        }
    }
    errors
}

fn validate_binding(binding: &Value, scope: Scope) -> Errors {
    let mut errors = check::new_metadata(binding, scope, names::path_segment);
    let (role, path) = (binding.at("roleRef"), Path::new("roleRef"));
    check::one_of(
        &mut errors,
        &path.child("apiGroup"),
        role.text("apiGroup"),
        &[GROUP],
    );
    let kinds: &[&str] = match scope {
        Scope::Namespaced => &["Role", "ClusterRole"],
        Scope::Cluster => &["ClusterRole"],
    };
    check::one_of(&mut errors, &path.child("kind"), role.text("kind"), kinds);
    check::required_name(
        &mut errors,
        &path.child("name"),
        role.text("name"),
        names::path_segment,
    );
    for (i, subject) in binding.items("subjects").iter().enumerate() {
        self::subject(&mut errors, &Path::new("subjects").index(i), subject, scope);
    }
    errors
}

fn subject(errors: &mut Errors, path: &Path, subject: &Value, scope: Scope) {
    let (name, group) = (subject.text("name"), subject.text("apiGroup"));
    check::required(errors, &path.child("name"), name);
    match subject.text("kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                check::faults(
                    errors,
                    &path.child("name"),
                    name,
                    names::dns1123_subdomain(name),
                );
            }
            check::one_of(errors, &path.child("apiGroup"), group, &[""]);
            if scope == Scope::Cluster {
                check::required(errors, &path.child("namespace"), subject.text("namespace"));
            }
        }
        "Group" | "User" => check::one_of(errors, &path.child("apiGroup"), group, &[GROUP]),
        kind => check::one_of(
            errors,
            &path.child("kind"),
            kind,
            &["ServiceAccount", "User", "Group"],
        ),
    }
}

fn validate_binding_update(new: &Value, old: &Value, scope: Scope) -> Errors {
    let mut errors = validate_binding(new, scope);
    errors.extend(check::changed_metadata(new, old));
    let role = new.at("roleRef");
    if role != old.at("roleRef") {
        let shown = Ordered::new()
            .text("APIGroup", role.text("apiGroup"))
            .text("Kind", role.text("kind"))
            .text("Name", role.text("name"));
        errors.push(Error::invalid(
            &Path::new("roleRef"),
            shown.bad_value(),
            "cannot change roleRef",
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_of_resources_or_of_paths() {
        let faults = |rule: Value| -> Vec<String> {
            let role = json!({"metadata": {"name": "r", "namespace": "n"}, "rules": [rule]});
            validate_role(&role, Scope::Namespaced)
                .into_iter()
                .map(|error| error.field)
                .collect()
        };
        assert!(
            faults(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})).is_empty()
        );
        assert_eq!(
            faults(json!({"verbs": ["get"], "nonResourceURLs": ["/x"]})),
            ["rules[0].nonResourceURLs"]
        );
        assert_eq!(
            faults(json!({})),
            ["rules[0].verbs", "rules[0].apiGroups", "rules[0].resources"]
        );
    }

    #[test]
    fn the_role_of_a_binding_is_fixed() {
        let binding = |role: &str| {
            json!({"metadata": {"name": "b", "namespace": "n", "resourceVersion": "1"},
                   "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": role}})
        };
        let errors = validate_binding_update(&binding("b"), &binding("a"), Scope::Namespaced);
        assert_eq!(
            errors[0].to_string(),
            "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"b\"}: \
             cannot change roleRef"
        );
    }
}
