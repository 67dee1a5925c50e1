//! The index of roles and bindings by the users and groups they are bound to.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/auth/authorizer/rbac/rbac.go`: `Authorize`, `RulesFor`
//! - `pkg/registry/rbac/validation/rule.go`: `VisitRulesFor`, `describeSubject`, `appliesToUser`

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use sendo_apimachinery::go_quote;
use sendo_store::Entry;
use serde::Deserialize;

use super::{Rule, nullable};
use crate::access::authorise::{Attributes, Requested};
use crate::access::follow::View;
use crate::request::user::{self, User};

/// All roles and bindings of the cluster, indexed by subject.
///
/// The cost of a lookup depends only on the number of rules bound to the user and the user's
/// groups.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    /// By namespace (empty for ClusterRoles), then by name.
    roles: HashMap<String, HashMap<String, Arc<[Rule]>>>,
    bindings: HashMap<String, Arc<Binding>>,
    users: HashMap<String, Bindings>,
    groups: HashMap<String, Bindings>,
}

/// The bindings to one user or group, by namespace and name.
type Bindings = BTreeMap<String, BTreeMap<String, Arc<Binding>>>;

/// The storage prefix of roles and bindings.
pub(crate) const PREFIXES: &[&str] = &["/registry/rbac.authorization.k8s.io/"];

/// A RoleBinding or ClusterRoleBinding.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Binding {
    #[serde(skip)]
    namespace: String,
    #[serde(skip)]
    name: String,
    role_ref: RoleRef,
    #[serde(default, deserialize_with = "nullable")]
    subjects: Vec<Subject>,
}

/// The `roleRef` of a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RoleRef {
    pub(crate) api_group: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Role {
    #[serde(deserialize_with = "nullable")]
    rules: Vec<Rule>,
}

/// Why a request is allowed: a binding, and the subject in it that is the user.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    binding: Arc<Binding>,
    subject: usize,
}

/// The result of [`Policy::find`].
#[derive(Debug)]
pub(crate) enum PolicyDecision {
    /// A binding to a role with a rule that allows the request.
    Grant(Grant),
    /// No rule allows the request. These roles are bound to the user but do not exist.
    NoRule(Vec<RoleRef>),
}

impl Policy {
    /// Finds a rule that allows a request.
    pub(crate) fn find(&self, attributes: &Attributes<'_>) -> PolicyDecision {
        let namespace = match &attributes.requested {
            Requested::Resource(subject) => subject.namespace,
            Requested::NonResource(_) => "",
        };
        let mut decision = PolicyDecision::NoRule(Vec::new());
        self.visit(attributes.user, namespace, |binding, rules| {
            match (rules, &mut decision) {
                (Ok(rules), _) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    decision = PolicyDecision::Grant(Grant {
                        subject: binding.subject(attributes.user).unwrap_or_default(),
                        binding: Arc::clone(binding),
                    });
                    return ControlFlow::Break(());
                }
                (Err(role), PolicyDecision::NoRule(absent)) => absent.push(role.clone()),
                _ => {}
            }
            ControlFlow::Continue(())
        });
        decision
    }

    /// All rules that a user holds in a namespace, and the roles bound to the user that do not
    /// exist.
    pub(crate) fn rules_of(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<RoleRef>) {
        let (mut held, mut absent) = (Vec::new(), Vec::new());
        self.visit(user, namespace, |_, rules| {
            match rules {
                Ok(rules) => held.extend_from_slice(rules),
                Err(role) => absent.push(role.clone()),
            }
            ControlFlow::Continue(())
        });
        (held, absent)
    }

    /// The rules of the role that a binding in `namespace` refers to, or `None` if it does not
    /// exist.
    pub(crate) fn rules(&self, role: &RoleRef, namespace: &str) -> Option<&[Rule]> {
        let namespace = match role.kind.as_str() {
            "Role" => namespace,
            "ClusterRole" => "",
            _ => return None,
        };
        let rules = self.roles.get(namespace)?.get(&role.name)?;
        Some(rules)
    }

    /// Visits the bindings of a user: ClusterRoleBindings, then the RoleBindings of the namespace,
    /// each by name.
    fn visit<'a>(
        &'a self,
        user: &User,
        namespace: &str,
        mut visit: impl FnMut(&'a Arc<Binding>, Result<&'a [Rule], &'a RoleRef>) -> ControlFlow<()>,
    ) {
        let groups = user.groups.iter().map(|group| self.groups.get(group));
        let held: Vec<&Bindings> = std::iter::once(self.users.get(&user.name))
            .chain(groups)
            .flatten()
            .collect();
        let namespaces = ["", namespace];
        for namespace in &namespaces[..1 + usize::from(!namespace.is_empty())] {
            let mut bindings: Vec<_> = held
                .iter()
                .filter_map(|held| held.get(*namespace))
                .flat_map(BTreeMap::values)
                .collect();
            bindings.sort_by(|a, b| a.name.cmp(&b.name));
            bindings.dedup_by(|a, b| Arc::ptr_eq(a, b));
            for binding in bindings {
                let role = &binding.role_ref;
                let rules = self.rules(role, namespace).ok_or(role);
                if visit(binding, rules).is_break() {
                    return;
                }
            }
        }
    }

    fn bind(&mut self, binding: &Arc<Binding>) {
        for subject in &binding.subjects {
            let Some(held) = self.bindings_of(subject, &binding.namespace) else {
                continue;
            };
            held.entry(binding.namespace.clone())
                .or_default()
                .insert(binding.name.clone(), Arc::clone(binding));
        }
    }

    fn unbind(&mut self, binding: &Binding) {
        for subject in &binding.subjects {
            let Some(held) = self.bindings_of(subject, &binding.namespace) else {
                continue;
            };
            if let Some(here) = held.get_mut(&binding.namespace) {
                here.remove(&binding.name);
                if here.is_empty() {
                    held.remove(&binding.namespace);
                }
            }
            if held.is_empty() {
                match subject.kind.as_str() {
                    "Group" => self.groups.remove(&subject.name),
                    _ => self.users.remove(&*subject.user_name(&binding.namespace)),
                };
            }
        }
    }

    /// The bindings of a subject in the index, `None` if its kind is unknown.
    fn bindings_of(&mut self, subject: &Subject, namespace: &str) -> Option<&mut Bindings> {
        match subject.kind.as_str() {
            "Group" => Some(self.groups.entry(subject.name.clone()).or_default()),
            "User" | "ServiceAccount" => {
                let name = subject.user_name(namespace).into_owned();
                Some(self.users.entry(name).or_default())
            }
            _ => None,
        }
    }
}

/// A parsed key below [`PREFIXES`].
enum RbacKey<'a> {
    Role { namespace: &'a str, name: &'a str },
    Binding { namespace: &'a str, name: &'a str },
}

fn parse_key(key: &str) -> Option<RbacKey<'_>> {
    let (plural, rest) = key.strip_prefix(PREFIXES[0])?.split_once('/')?;
    Some(match plural {
        "clusterroles" => RbacKey::Role {
            namespace: "",
            name: rest,
        },
        "clusterrolebindings" => RbacKey::Binding {
            namespace: "",
            name: rest,
        },
        "roles" => {
            let (namespace, name) = rest.split_once('/')?;
            RbacKey::Role { namespace, name }
        }
        "rolebindings" => {
            let (namespace, name) = rest.split_once('/')?;
            RbacKey::Binding { namespace, name }
        }
        _ => return None,
    })
}

impl View for Policy {
    fn put(&mut self, entry: &Entry) {
        self.remove(&entry.key);
        match parse_key(&entry.key) {
            Some(RbacKey::Role { namespace, name }) => {
                let role: Role = serde_json::from_slice(&entry.value).unwrap_or_default();
                self.roles
                    .entry(namespace.to_owned())
                    .or_default()
                    .insert(name.to_owned(), role.rules.into());
            }
            Some(RbacKey::Binding { namespace, name }) => {
                // Stored bindings are valid. One that cannot be decoded grants nothing.
                let Ok(binding) = serde_json::from_slice::<Binding>(&entry.value) else {
                    return;
                };
                let binding = Arc::new(Binding {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    ..binding
                });
                self.bind(&binding);
                self.bindings.insert(entry.key.to_string(), binding);
            }
            None => {}
        }
    }

    fn remove(&mut self, key: &str) {
        match parse_key(key) {
            Some(RbacKey::Role { namespace, name }) => {
                let Some(here) = self.roles.get_mut(namespace) else {
                    return;
                };
                here.remove(name);
                if here.is_empty() {
                    self.roles.remove(namespace);
                }
            }
            Some(RbacKey::Binding { .. }) => {
                if let Some(binding) = self.bindings.remove(key) {
                    self.unbind(&binding);
                }
            }
            None => {}
        }
    }
}

impl Binding {
    /// The index of the first subject that is `user`.
    fn subject(&self, user: &User) -> Option<usize> {
        self.subjects
            .iter()
            .position(|subject| match subject.kind.as_str() {
                "Group" => user.is_in(&subject.name),
                "User" | "ServiceAccount" => subject.user_name(&self.namespace) == user.name,
                _ => false,
            })
    }
}

impl Subject {
    /// The user name of the subject. A ServiceAccount without a namespace is in that of the
    /// binding.
    fn user_name(&self, namespace: &str) -> std::borrow::Cow<'_, str> {
        if self.kind != "ServiceAccount" {
            return self.name.as_str().into();
        }
        user::service_account(self.account_namespace(namespace), &self.name).into()
    }

    fn account_namespace<'a>(&'a self, namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() {
            namespace
        } else {
            &self.namespace
        }
    }
}

/// The reason in the response to an access review.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Binding {
            namespace,
            name,
            role_ref,
            subjects,
        } = &*self.binding;
        let (kind, name) = match namespace.as_str() {
            "" => ("ClusterRoleBinding", go_quote(name)),
            namespace => ("RoleBinding", go_quote(&format!("{name}/{namespace}"))),
        };
        let role = go_quote(&role_ref.name);
        write!(f, "{kind} {name} of {} {role}", role_ref.kind)?;
        let Some(subject) = subjects.get(self.subject) else {
            return Ok(());
        };
        let who = match subject.kind.as_str() {
            "ServiceAccount" => {
                format!("{}/{}", subject.name, subject.account_namespace(namespace))
            }
            _ => subject.name.clone(),
        };
        write!(f, " to {} {}", subject.kind, go_quote(&who))
    }
}

#[cfg(test)]
mod tests {
    use sendo_store::Revision;
    use serde_json::{Value, json};

    use super::*;
    use crate::access::authorise::ResourceAttributes;

    fn put(policy: &mut Policy, key: &str, value: Value) {
        policy.put(&Entry {
            key: format!("{}{key}", PREFIXES[0]).into(),
            value: value.to_string().into(),
            created: Revision(1),
            modified: Revision(1),
            memo: Default::default(),
        });
    }

    fn reader_of(resource: &str) -> Value {
        json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]})
    }

    fn binding(kind: &str, role: &str, subject: Value) -> Value {
        json!({"roleRef": {"kind": kind, "name": role}, "subjects": [subject]})
    }

    fn why(policy: &Policy, user: &User, namespace: &str, resource: &str) -> Option<String> {
        let decision = policy.find(&Attributes {
            user,
            verb: "get",
            requested: Requested::Resource(ResourceAttributes {
                resource,
                namespace,
                ..ResourceAttributes::default()
            }),
        });
        match decision {
            PolicyDecision::Grant(grant) => Some(grant.to_string()),
            PolicyDecision::NoRule(_) => None,
        }
    }

    #[test]
    fn a_role_counts_in_its_namespace_and_a_cluster_binding_everywhere() {
        let mut policy = Policy::default();
        put(&mut policy, "roles/n/r", reader_of("pods"));
        put(&mut policy, "clusterroles/c", reader_of("secrets"));
        let ann = json!({"kind": "User", "name": "ann"});
        put(&mut policy, "rolebindings/n/b", binding("Role", "r", ann));
        let devs = json!({"kind": "Group", "name": "devs"});
        put(
            &mut policy,
            "clusterrolebindings/d",
            binding("ClusterRole", "c", devs),
        );
        let ann = User::new("ann", ["devs"]);
        assert_eq!(
            why(&policy, &ann, "n", "pods").unwrap(),
            "RoleBinding \"b/n\" of Role \"r\" to User \"ann\""
        );
        assert_eq!(why(&policy, &ann, "m", "pods"), None);
        assert_eq!(why(&policy, &ann, "", "pods"), None);
        assert_eq!(
            why(&policy, &ann, "m", "secrets").unwrap(),
            "ClusterRoleBinding \"d\" of ClusterRole \"c\" to Group \"devs\""
        );
    }

    #[test]
    fn an_account_without_a_namespace_is_of_the_bindings() {
        let mut policy = Policy::default();
        put(&mut policy, "clusterroles/c", reader_of("secrets"));
        let robot = json!({"kind": "ServiceAccount", "name": "robot"});
        put(
            &mut policy,
            "rolebindings/n/b",
            binding("ClusterRole", "c", robot.clone()),
        );
        put(
            &mut policy,
            "clusterrolebindings/b",
            binding("ClusterRole", "c", robot),
        );
        let robot = User::new("system:serviceaccount:n:robot", [""; 0]);
        assert_eq!(
            why(&policy, &robot, "n", "secrets").unwrap(),
            "RoleBinding \"b/n\" of ClusterRole \"c\" to ServiceAccount \"robot/n\""
        );
        // A ClusterRoleBinding has no namespace that the account could be in.
        assert_eq!(why(&policy, &robot, "m", "secrets"), None);
    }

    #[test]
    fn what_is_taken_back_is_gone_and_leaves_nothing_behind() {
        let mut policy = Policy::default();
        put(&mut policy, "roles/n/r", reader_of("pods"));
        let ann = json!({"kind": "User", "name": "ann"});
        put(&mut policy, "rolebindings/n/b", binding("Role", "r", ann));
        let bob = json!({"kind": "User", "name": "bob"});
        put(&mut policy, "rolebindings/n/b", binding("Role", "r", bob));
        let user = |name: &str| User::new(name, [""; 0]);
        assert_eq!(why(&policy, &user("ann"), "n", "pods"), None);
        assert!(why(&policy, &user("bob"), "n", "pods").is_some());
        policy.remove(&format!("{}roles/n/r", PREFIXES[0]));
        assert_eq!(why(&policy, &user("bob"), "n", "pods"), None);
        let (_, absent) = policy.rules_of(&user("bob"), "n");
        assert_eq!(absent[0].name, "r");
        policy.remove(&format!("{}rolebindings/n/b", PREFIXES[0]));
        assert!(policy.users.is_empty() && policy.bindings.is_empty() && policy.roles.is_empty());
    }
}
