//! A webhook as it is declared.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::decide::{Decide, Defaulter, Reviewer, Validator};
use super::handler::{Defaults, Reviews, Validates};
use super::operations::{Operation, Operations};
use super::rule::Rule;
use crate::cache::{Index, IndexValue, Selection};
use crate::object::{Kind, Typed, short_type_name};
use crate::reader::{DeclaredRead, Reader};
use crate::rights::Right;

/// The label of a namespace that has its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The seconds that a webhook has, unless it says otherwise: as long as Kubernetes gives one.
const TIMEOUT: u8 = 10;

/// Declares a webhook that completes objects of a kind before they are stored.
///
/// It is asked about creations and updates.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use sendo::Manager;
/// use sendo::webhook::{self, Admission, Denied};
///
/// async fn set_defaults(map: &mut ConfigMap, _cx: Admission) -> Result<(), Denied> {
///     map.immutable.get_or_insert(true);
///     Ok(())
/// }
///
/// let program = Manager::new("settings")
///     .webhook(webhook::defaults(set_defaults).except_own_namespace());
/// # assert!(program.problems().is_empty(), "{:?}", program.problems());
/// ```
pub fn defaults<K: Typed>(handler: impl Defaults<K>) -> Webhook {
    let kind = Kind::of::<K>();
    let decide = Arc::new(Defaulter::new(handler));
    Webhook::of_kind(Phase::Mutating, kind, decide)
}

/// Declares a webhook that refuses what may not be stored, or deleted.
///
/// It is asked about creations and updates, unless [`Webhook::on`] says otherwise.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use sendo::Manager;
/// use sendo::webhook::{self, Admission, Change, Denied, Operation::*};
///
/// async fn validate(change: Change<ConfigMap>, cx: Admission) -> Result<(), Denied> {
///     match change {
///         Change::Delete(map) if map.immutable == Some(true) => {
///             Err(Denied::because("immutable settings are never deleted"))
///         }
///         Change::Create(map) if map.data.is_none() => Err(Denied::field("data").required("")),
///         _ => Ok(cx.warn("settings are read once, when a program starts")),
///     }
/// }
///
/// let webhook = webhook::validates(validate).on(Create | Update | Delete).except_own_namespace();
/// let program = Manager::new("settings").webhook(webhook);
/// # assert!(program.problems().is_empty(), "{:?}", program.problems());
/// ```
pub fn validates<K: Typed>(handler: impl Validates<K>) -> Webhook {
    let kind = Kind::of::<K>();
    let decide = Arc::new(Validator::new(handler));
    Webhook::of_kind(Phase::Validating, kind, decide)
}

/// Declares a webhook that decides about requests as the API server describes them: of kinds
/// without a Rust type, of several kinds, of connections. `name` is unique in its program and
/// part of its path; [`Webhook::rule`] says what it is asked about.
///
/// ```
/// use std::sync::Arc;
/// use sendo::Manager;
/// use sendo::webhook::{self, Admission, AdmissionRequest, Decision, Denied, Operation, Phase, Rule};
///
/// async fn no_shell(request: Arc<AdmissionRequest>, _cx: Admission) -> Result<Decision, Denied> {
///     match request.namespace.as_str() {
///         "production" => Err(Denied::because("no shells in production")),
///         _ => Ok(Decision::Allowed),
///     }
/// }
///
/// let shells = Rule::new("", "v1", "pods/exec").on(Operation::Connect);
/// let webhook = webhook::reviews(Phase::Validating, "no-shell", no_shell).rule(shells);
/// let program = Manager::new("guard").webhook(webhook);
/// # assert!(program.problems().is_empty(), "{:?}", program.problems());
/// ```
pub fn reviews(phase: Phase, name: &str, handler: impl Reviews) -> Webhook {
    let decide = Arc::new(Reviewer::new(phase, handler));
    let mut webhook = Webhook::new(phase, None, Vec::new(), decide);
    webhook.name = Some(name.to_owned());
    webhook
}

/// When a webhook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before validation; it may change the object.
    Mutating,
    /// Last of all, with what will be stored.
    Validating,
}

/// What becomes of a request when the call of a webhook fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It is refused.
    #[default]
    Fail,
    /// It goes on as if there were no such webhook.
    Ignore,
}

/// Whether the rules are for the versions that they name only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchPolicy {
    /// Requests in another version are converted to that of the rule.
    #[default]
    Equivalent,
    /// Requests in another version are not reviewed.
    Exact,
}

/// Whether a webhook is called for requests that store nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SideEffects {
    /// It changes nothing elsewhere, and is called for them.
    #[default]
    None,
    /// It changes something elsewhere, but not for [a dry run](super::Admission::is_dry_run).
    NoneOnDryRun,
}

/// A declared webhook. Nothing happens until a manager runs it.
///
/// Every field of its configuration can be set; the defaults are those of Kubernetes, with no
/// side effects.
pub struct Webhook {
    pub(super) phase: Phase,
    /// The kind of its objects, if that is known.
    pub(super) kind: Option<Kind>,
    pub(super) name: Option<String>,
    pub(super) rules: Vec<Rule>,
    pub(super) failure_policy: FailurePolicy,
    pub(super) match_policy: MatchPolicy,
    pub(super) side_effects: SideEffects,
    pub(super) timeout_seconds: u8,
    pub(super) match_conditions: Vec<MatchCondition>,
    pub(super) namespace_selector: Option<LabelSelector>,
    pub(super) object_selector: Option<LabelSelector>,
    pub(super) except_own_namespace: bool,
    pub(super) reinvoked: bool,
    pub(super) reads: Vec<DeclaredRead>,
    pub(super) indexes: Vec<DeclaredIndex>,
    needs: Vec<Right>,
    pub(super) decide: Arc<dyn Decide>,
}

/// An index that a webhook looks objects up in.
pub(super) struct DeclaredIndex {
    of: TypeId,
    undeclared: String,
    pub(super) add: Box<dyn Fn(&Reader) + Send + Sync>,
}

impl Webhook {
    fn of_kind(phase: Phase, kind: Kind, decide: Arc<dyn Decide>) -> Self {
        let rules = vec![Rule::from_kind(&kind)];
        Webhook::new(phase, Some(kind), rules, decide)
    }

    fn new(phase: Phase, kind: Option<Kind>, rules: Vec<Rule>, decide: Arc<dyn Decide>) -> Self {
        Webhook {
            phase,
            kind,
            name: None,
            rules,
            failure_policy: FailurePolicy::default(),
            match_policy: MatchPolicy::default(),
            side_effects: SideEffects::default(),
            timeout_seconds: TIMEOUT,
            match_conditions: Vec::new(),
            namespace_selector: None,
            object_selector: None,
            except_own_namespace: false,
            reinvoked: false,
            reads: Vec::new(),
            indexes: Vec::new(),
            needs: Vec::new(),
            decide,
        }
    }

    /// The operations that it is asked about.
    pub fn on(mut self, operations: impl Into<Operations>) -> Self {
        let operations = operations.into();
        for rule in &mut self.rules {
            rule.operations = operations;
        }
        self
    }

    /// A name of its own, where a program has several webhooks of one sort for one kind. It is
    /// part of its path and of its name in the configuration.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Asks it about more requests.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Asks it about a subresource of its kind too, such as `status`. What is sent must be an
    /// object of the kind.
    pub fn subresource(mut self, name: &str) -> Self {
        if let Some(rule) = self.rules.first_mut()
            && let Some(resource) = rule.resources.first()
        {
            rule.resources.push(format!("{resource}/{name}"));
        }
        self
    }

    /// What becomes of a request when the call fails: a panic, a time-out, an error, nobody there.
    /// By default it is refused.
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.failure_policy = policy;
        self
    }

    /// Whether requests in other versions than its own are converted for it; by default they are.
    pub fn match_policy(mut self, policy: MatchPolicy) -> Self {
        self.match_policy = policy;
        self
    }

    /// Whether it changes anything elsewhere; by default it does not.
    pub fn side_effects(mut self, side_effects: SideEffects) -> Self {
        self.side_effects = side_effects;
        self
    }

    /// How many seconds it has, from 1 to 30; 10 by default. Its own deadline is a little
    /// earlier, so that it is the one to say what took too long.
    pub fn timeout_seconds(mut self, seconds: u8) -> Self {
        self.timeout_seconds = seconds;
        self
    }

    /// Asks it only where an expression (CEL) holds; see the guide's chapter on webhooks. The
    /// name is shown in errors.
    pub fn match_condition(mut self, name: &str, expression: &str) -> Self {
        self.match_conditions.push(MatchCondition {
            name: name.to_owned(),
            expression: expression.to_owned(),
        });
        self
    }

    /// Asks it only about objects in namespaces with these labels, and namespaces themselves
    /// with these labels.
    pub fn namespace_selector(mut self, selector: LabelSelector) -> Self {
        self.namespace_selector = Some(selector);
        self
    }

    /// Asks it only about objects that have or had these labels. Who may write an object may
    /// leave out its labels.
    pub fn object_selector(mut self, selector: LabelSelector) -> Self {
        self.object_selector = Some(selector);
        self
    }

    /// Leaves out the namespace that the program itself runs in. A webhook for pods, or for
    /// anything else that a program needs to start, would otherwise keep its own program from
    /// starting again.
    pub fn except_own_namespace(mut self) -> Self {
        self.except_own_namespace = true;
        self
    }

    /// Calls a mutating webhook once more if a later one changed the object.
    pub fn reinvoked(mut self) -> Self {
        self.reinvoked = true;
        self
    }

    /// Lets the handler read a kind from the cache. Calls wait until it is there, as long as
    /// they have time.
    pub fn reads<R: Typed>(mut self) -> Self {
        self.reads
            .push(DeclaredRead::new::<R>(Selection::default()));
        self
    }

    /// Keeps an index over a kind that the handler reads, and lets it read that kind.
    pub fn index<C: Typed, V: IndexValue>(mut self, index: &'static Index<C, V>) -> Self {
        self.indexes.push(DeclaredIndex {
            of: TypeId::of::<C>(),
            undeclared: format!(
                "keeps the index `{}` over {}, which it does not read: add `.reads::<{}>()`",
                index.name(),
                Kind::of::<C>(),
                short_type_name::<C>()
            ),
            add: Box::new(|reader| {
                for informer in reader.informers::<C>() {
                    informer.add_index(index);
                }
            }),
        });
        self
    }

    /// Declares a right that the handler needs for reads of the API server itself:
    /// `.needs(Right::of::<Secret>(Verb::Get))`.
    pub fn needs(mut self, right: Right) -> Self {
        self.needs.push(right);
        self
    }

    /// The rights that it needs.
    pub(crate) fn rights(&self) -> impl Iterator<Item = Right> {
        let reads = self.reads.iter().map(DeclaredRead::right);
        reads.chain(self.needs.iter().cloned())
    }

    /// When it is called.
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// The kinds that it reads.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.reads.iter().map(|read| &read.kind)
    }

    /// The path it is served at: as controller-runtime has it, and with the name if it has one.
    pub(crate) fn path(&self) -> String {
        let verb = match self.phase {
            Phase::Mutating => "mutate",
            Phase::Validating => "validate",
        };
        let own = self.name.iter().cloned();
        let parts = self.kind.iter().flat_map(|kind| {
            let group = kind.group.replace('.', "-");
            [group, kind.version.clone(), kind.kind.to_lowercase()]
        });
        let parts: Vec<String> = parts.chain(own).filter(|part| !part.is_empty()).collect();
        format!("/{verb}-{}", parts.join("-"))
    }

    /// Its name in the configuration: of three segments at least, as Kubernetes wants.
    pub(crate) fn configured_name(&self, program: &str) -> String {
        let verb = match self.phase {
            Phase::Mutating => "default",
            Phase::Validating => "validate",
        };
        let mut parts = vec![verb];
        parts.extend(self.name.as_deref());
        match &self.kind {
            Some(kind) => {
                parts.push(&kind.plural);
                parts.push(if kind.group.is_empty() {
                    program
                } else {
                    &kind.group
                });
            }
            None => parts.push(program),
        }
        parts.join(".")
    }

    /// Which namespaces it is asked about, for a program that runs in `own_namespace`.
    pub(super) fn namespaces(&self, own_namespace: &str) -> Option<LabelSelector> {
        if !self.except_own_namespace {
            return self.namespace_selector.clone();
        }
        let mut selector = self.namespace_selector.clone().unwrap_or_default();
        let requirements = selector.match_expressions.get_or_insert_default();
        requirements.push(LabelSelectorRequirement {
            key: NAMESPACE_NAME.to_owned(),
            operator: "NotIn".to_owned(),
            values: Some(vec![own_namespace.to_owned()]),
        });
        Some(selector)
    }

    /// How long a call may take if the API server does not say.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.into())
    }

    /// What is wrong with the declaration, each the end of a sentence that begins with the
    /// webhook and names the fix.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !(1..=30).contains(&self.timeout_seconds) {
            problems.push(format!(
                "has {} seconds, and may have from 1 to 30: change `.timeout_seconds(…)`",
                self.timeout_seconds
            ));
        }
        let operations = |one| self.rules.iter().any(|rule| rule.operations.contains(one));
        if self.rules.is_empty() {
            problems.push("has no rule and would never be called: add `.rule(…)`".to_owned());
        }
        if self.phase == Phase::Mutating && self.kind.is_some() && operations(Operation::Delete) {
            problems.push(
                "is asked about deletions, which it cannot change: take `Delete` out of `.on(…)`, or validate it"
                    .to_owned(),
            );
        }
        if self.kind.is_some() && operations(Operation::Connect) {
            problems.push(
                "is asked about connections, which have no object of its kind: use `webhook::reviews`"
                    .to_owned(),
            );
        }
        if self.phase == Phase::Validating && self.reinvoked {
            problems.push(
                "is called last of all: `.reinvoked()` is for mutating webhooks, leave it out"
                    .to_owned(),
            );
        }
        for index in &self.indexes {
            if !self.reads.iter().any(|read| read.type_id == index.of) {
                problems.push(index.undeclared.clone());
            }
        }
        problems.extend(self.blocks_itself());
        problems
    }

    /// Whether the program would need itself to start: its pods, and what makes them.
    fn blocks_itself(&self) -> Option<String> {
        const NEEDED: [(&str, &str); 10] = [
            ("", "pods"),
            ("", "pods/binding"),
            ("", "pods/status"),
            ("", "secrets"),
            ("", "configmaps"),
            ("", "serviceaccounts"),
            ("apps", "deployments"),
            ("apps", "replicasets"),
            ("coordination.k8s.io", "leases"),
            ("discovery.k8s.io", "endpointslices"),
        ];
        let is_narrowed = self.except_own_namespace
            || self.namespace_selector.is_some()
            || self.object_selector.is_some()
            || !self.match_conditions.is_empty();
        if self.failure_policy == FailurePolicy::Ignore || is_narrowed {
            return None;
        }
        let needed = NEEDED.iter().find(|(group, resource)| {
            let mut rules = self.rules.iter();
            rules.any(|rule| rule.writes(group, resource))
        });
        let (_, resource) = needed?;
        Some(format!(
            "is asked about {resource} of the program's own namespace too: while it does not run, nothing could start it again; add `.except_own_namespace()`, or a selector"
        ))
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("path", &self.path())
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    use super::*;
    use crate::webhook::{Admission, Change, Denied, Operation::*};

    async fn allow<K: Typed>(_: Change<K>, _: Admission) -> Result<(), Denied> {
        Ok(())
    }

    #[test]
    fn paths_are_those_of_controller_runtime() {
        let webhook = validates(allow::<k8s_openapi::api::batch::v1::CronJob>);
        assert_eq!(webhook.path(), "/validate-batch-v1-cronjob");
        let webhook = validates(allow::<Pod>);
        assert_eq!(webhook.path(), "/validate-v1-pod");
        assert_eq!(webhook.configured_name("guard"), "validate.pods.guard");
        let webhook = webhook.named("images");
        assert_eq!(webhook.path(), "/validate-v1-pod-images");
        assert_eq!(
            webhook.configured_name("guard"),
            "validate.images.pods.guard"
        );
    }

    #[test]
    fn a_declaration_that_cannot_work_names_the_fix() {
        static INDEX: Index<Pod, String> = Index::new("by-x", |_| None);
        let fine = || validates(allow::<ConfigMap>).except_own_namespace();
        let problem = |webhook: Webhook| webhook.problems().join(" / ");
        assert_eq!(problem(fine()), "");
        assert!(problem(fine().timeout_seconds(31)).contains("from 1 to 30"));
        assert!(problem(fine().on(Connect)).contains("use `webhook::reviews`"));
        assert!(problem(fine().reinvoked()).contains("`.reinvoked()` is for mutating"));
        assert!(problem(fine().index(&INDEX)).contains("add `.reads::<Pod>()`"));
        assert_eq!(problem(fine().reads::<Pod>().index(&INDEX)), "");
    }

    #[test]
    fn a_webhook_that_its_own_program_needs_to_start_is_a_problem() {
        let problem = |webhook: Webhook| webhook.problems().join(" / ");
        let pods = || validates(allow::<Pod>);
        assert!(problem(pods()).starts_with("is asked about pods of the program's own namespace"));
        assert_eq!(problem(pods().except_own_namespace()), "");
        assert_eq!(problem(pods().failure_policy(FailurePolicy::Ignore)), "");
        assert_eq!(problem(pods().match_condition("x", "true")), "");
        // Deletions of pods keep none from starting.
        assert_eq!(problem(pods().on(Delete)), "");
        let everything = Rule::new("*", "*", "*");
        assert!(problem(validates(allow::<Pod>).on(Delete).rule(everything)).contains("pods"));
    }

    #[test]
    fn the_own_namespace_is_left_out_beside_what_else_is_selected() {
        let selector = LabelSelector {
            match_labels: Some([("a".to_owned(), "b".to_owned())].into()),
            ..LabelSelector::default()
        };
        let webhook = validates(allow::<Pod>)
            .namespace_selector(selector.clone())
            .except_own_namespace();
        let namespaces = webhook.namespaces("mine").unwrap();
        assert_eq!(namespaces.match_labels, selector.match_labels);
        let [requirement] = &namespaces.match_expressions.unwrap()[..] else {
            panic!("one requirement")
        };
        assert_eq!(requirement.operator, "NotIn");
        assert_eq!(requirement.values.as_deref().unwrap(), ["mine"]);
    }
}
