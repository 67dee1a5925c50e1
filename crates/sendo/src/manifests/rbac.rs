//! The rights of a program as roles and bindings, and roles for the people who use its kinds.
//!
//! Rules of Kubernetes: apiserver v0.36, `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go`
//! for which role is aggregated into which.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use serde_json::json;

use super::model::{File, Item, Model};
use crate::rights::{Right, Verb, Verbs};

const API: &str = "rbac.authorization.k8s.io";

/// The roles of the program and their bindings: a ClusterRole for what it may do everywhere, and
/// a Role in each namespace where it may do more.
pub(super) fn of_program(model: &Model<'_>, rights: Vec<Right>) -> Vec<Item> {
    let (everywhere, narrowed): (Vec<_>, Vec<_>) = rights
        .into_iter()
        .partition(|right| right.namespaces.is_empty());
    let mut items = Vec::new();
    if !everywhere.is_empty() {
        let role = ClusterRole {
            metadata: model.named(&model.name),
            rules: Some(rules(&everywhere)),
            ..ClusterRole::default()
        };
        let binding = ClusterRoleBinding {
            metadata: model.named(&model.name),
            role_ref: role_ref("ClusterRole", &model.name),
            subjects: Some(vec![subject(model)]),
        };
        let mut item = Item::new(File::Rbac, &role).comment(
            "What the program may do in every namespace, and with objects of no namespace.",
        );
        for (at, rule) in role.rules.iter().flatten().enumerate() {
            if let Some(reason) = reason(rule) {
                item = item.note(&format!("/rules/{at}"), reason);
            }
        }
        items.push(item);
        items.push(Item::new(File::Rbac, &binding));
    }
    let namespaces: BTreeSet<&String> = narrowed
        .iter()
        .flat_map(|right| &right.namespaces)
        .collect();
    for namespace in namespaces {
        let here = narrowed
            .iter()
            .filter(|right| right.namespaces.contains(namespace));
        let here: Vec<Right> = here
            .filter_map(|right| beyond(right, &everywhere))
            .collect();
        if here.is_empty() {
            continue;
        }
        let is_own = *namespace == model.namespace;
        let (name, comment) = match is_own {
            true => (
                format!("{}-own-namespace", model.name),
                "In its own namespace: what replicas elect their leader by.",
            ),
            false => (
                model.name.clone(),
                match namespace.as_str() {
                    "default" => {
                        "In the namespace default, where Events about objects of no namespace are written."
                    }
                    _ => "What the program may do in this namespace.",
                },
            ),
        };
        let role = Role {
            metadata: model.named_in(&name, namespace),
            rules: Some(rules(&here)),
        };
        let binding = RoleBinding {
            metadata: model.named_in(&name, namespace),
            role_ref: role_ref("Role", &name),
            subjects: Some(vec![subject(model)]),
        };
        items.push(Item::new(File::Rbac, &role).comment(comment));
        items.push(Item::new(File::Rbac, &binding));
    }
    items
}

/// The role of who reads the program's metrics, such as Prometheus; bound by who runs that.
pub(super) fn of_metrics(model: &Model<'_>) -> Item {
    let name = format!("{}-metrics-reader", model.name);
    let role = ClusterRole {
        metadata: model.named(&name),
        rules: Some(vec![PolicyRule {
            non_resource_urls: Some(vec!["/metrics".to_owned()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        }]),
        ..ClusterRole::default()
    };
    Item::new(File::UserRoles, &role)
        .comment("For who reads the metrics: bind it to the account of Prometheus.")
}

/// A role to view, to edit and to administer each kind of the program's own. Those of kinds in
/// namespaces are part of the cluster's roles of these names.
pub(super) fn of_users(model: &Model<'_>, definitions: &[CustomResourceDefinition]) -> Vec<Item> {
    let mut items = Vec::new();
    for definition in definitions {
        let (spec, names) = (&definition.spec, &definition.spec.names);
        let plurals = definitions.iter().map(|one| &one.spec.names.plural);
        let is_alone = plurals.filter(|plural| **plural == names.plural).count() == 1;
        let resource = match is_alone {
            true => names.plural.clone(),
            false => format!("{}.{}", names.plural, spec.group),
        };
        let is_namespaced = spec.scope != "Cluster";
        let subresources = spec
            .versions
            .iter()
            .flat_map(|version| &version.subresources);
        let has_status = subresources.clone().any(|sub| sub.status.is_some());
        let has_scale = subresources.clone().any(|sub| sub.scale.is_some());
        let view = Verb::Get | Verb::List | Verb::Watch;
        let edit =
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection;
        for (role, verbs) in [("view", view), ("edit", edit), ("admin", Verbs::ALL)] {
            let right =
                |resource: &str, verbs: Verbs| Right::resource(&spec.group, resource, verbs);
            let mut rights = vec![right(&names.plural, verbs)];
            let status = format!("{}/status", names.plural);
            let scale = format!("{}/scale", names.plural);
            match role {
                "view" if has_status => rights.push(right(&status, Verb::Get.into())),
                "admin" if has_status => rights.push(right(&status, Verb::Get.into())),
                _ => {}
            }
            match role {
                "view" if has_scale => rights.push(right(&scale, Verb::Get.into())),
                "edit" | "admin" if has_scale => {
                    rights.push(right(&scale, Verb::Get | Verb::Update | Verb::Patch));
                }
                _ => {}
            }
            let mut metadata = model.named(&format!("{}-{resource}-{role}", model.name));
            let labels = metadata.labels.get_or_insert_default();
            if is_namespaced {
                labels.insert(format!("{API}/aggregate-to-{role}"), "true".to_owned());
            }
            let object = ClusterRole {
                metadata,
                rules: Some(rules(&rights)),
                ..ClusterRole::default()
            };
            let kind = &names.kind;
            let comment = match (role, is_namespaced) {
                ("view", true) => format!("Who may view a namespace may view each {kind} in it."),
                ("edit", true) => {
                    format!("Who may edit what is in a namespace may write each {kind} in it.")
                }
                ("admin", true) => {
                    format!("Who administers a namespace may do everything with each {kind} in it.")
                }
                (_, false) => {
                    format!("{kind} is of no namespace: nobody has this role unless you bind it.")
                }
                _ => String::new(),
            };
            items.push(Item::new(File::UserRoles, &object).comment(&comment));
        }
    }
    items
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    // The types of one release have the group always, those of another may leave it out.
    let role = json!({"apiGroup": API, "kind": kind, "name": name});
    serde_json::from_value(role).unwrap_or_default()
}

fn subject(model: &Model<'_>) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: model.name.clone(),
        namespace: Some(model.namespace.clone()),
        ..Subject::default()
    }
}

/// What a rule is for, where its resource does not say.
fn reason(rule: &PolicyRule) -> Option<&'static str> {
    let verbs = |verb: &str| rule.verbs.iter().any(|known| known == verb);
    let resources = |ending: &str| {
        let mut resources = rule.resources.iter().flatten();
        resources.any(|resource| resource.ends_with(ending))
    };
    if resources("/finalizers") {
        return Some("An owner reference that blocks the owner's deletion needs it.");
    }
    if resources("tokenreviews") || resources("subjectaccessreviews") {
        return Some("Who reads the metrics is identified, and may read them or not.");
    }
    let gives = verbs("escalate") || verbs("bind");
    gives.then_some("It gives rights that it does not have itself: escalate and bind let it.")
}

/// What of a right is not one everywhere already.
fn beyond(right: &Right, everywhere: &[Right]) -> Option<Right> {
    let same = everywhere.iter().filter(|other| {
        other.names.is_empty()
            && (&other.group, &other.resource, &other.path)
                == (&right.group, &right.resource, &right.path)
    });
    let has = same.fold(Verbs::default(), |verbs, other| verbs | other.verbs);
    let verbs = right.verbs.without(has);
    (!verbs.is_empty()).then(|| Right {
        verbs,
        ..right.clone()
    })
}

/// As few rules as say the same, in order.
pub(super) fn rules(rights: &[Right]) -> Vec<PolicyRule> {
    let mut paths = BTreeMap::<&String, Verbs>::new();
    let mut verbs = BTreeMap::<(&String, BTreeSet<String>, &String), Verbs>::new();
    for right in rights {
        if let Some(path) = &right.path {
            let all = paths.entry(path).or_default();
            *all = *all | right.verbs;
            continue;
        }
        for (names, some) in by_names(right) {
            let all = verbs
                .entry((&right.group, names, &right.resource))
                .or_default();
            *all = *all | some;
        }
    }
    // What everything of a resource is allowed for need not be said of some of its objects.
    let unnamed: BTreeMap<_, Verbs> = verbs
        .iter()
        .filter(|((_, names, _), _)| names.is_empty())
        .map(|((group, _, resource), verbs)| ((*group, *resource), *verbs))
        .collect();
    let mut resources = BTreeMap::<(&String, BTreeSet<String>, Verbs), Vec<String>>::new();
    for ((group, names, resource), mut some) in verbs {
        if let Some(all) = unnamed
            .get(&(group, resource))
            .filter(|_| !names.is_empty())
        {
            some = some.without(*all);
        }
        if !some.is_empty() {
            let same = resources.entry((group, names, some)).or_default();
            same.push(resource.clone());
        }
    }
    let mut rules: Vec<PolicyRule> = resources
        .into_iter()
        .map(|((group, names, verbs), resources)| PolicyRule {
            api_groups: Some(vec![group.clone()]),
            resources: Some(resources),
            resource_names: (!names.is_empty()).then(|| names.into_iter().collect()),
            verbs: named(verbs),
            ..PolicyRule::default()
        })
        .collect();
    rules.sort_by(|a, b| {
        let key = |rule: &PolicyRule| {
            (
                rule.api_groups.clone(),
                rule.resources.clone(),
                rule.resource_names.clone(),
            )
        };
        key(a).cmp(&key(b))
    });
    rules.extend(paths.into_iter().map(|(path, verbs)| PolicyRule {
        non_resource_urls: Some(vec![path.clone()]),
        verbs: named(verbs),
        ..PolicyRule::default()
    }));
    rules
}

/// The verbs of a right that its names narrow, and those that they cannot: a creation by POST and
/// a deletion of many have no name.
fn by_names(right: &Right) -> Vec<(BTreeSet<String>, Verbs)> {
    let nameless = Verb::Create | Verb::DeleteCollection;
    if right.names.is_empty() || right.verbs == Verbs::ALL {
        return vec![(right.names.clone(), right.verbs)];
    }
    let split = [
        (right.names.clone(), right.verbs.without(nameless)),
        (BTreeSet::new(), right.verbs.only(nameless)),
    ];
    split
        .into_iter()
        .filter(|(_, verbs)| !verbs.is_empty())
        .collect()
}

fn named(verbs: Verbs) -> Vec<String> {
    verbs.names().into_iter().map(str::to_owned).collect()
}
