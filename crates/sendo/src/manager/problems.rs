//! Mistakes in a program's declaration, found before anything runs.

use std::collections::BTreeSet;

use http::Method;

use super::{Config, Manager, RightsOptions};
use crate::controller::Elected;
use crate::rights::{Attributes, DeclaredRights};

/// The most characters of a field manager's name (apimachinery,
/// apis/meta/v1/validation: `FieldManagerMaxLength`).
const LONGEST_NAME: usize = 128;

/// The most characters of an object's name (apimachinery, util/validation:
/// `DNS1123SubdomainMaxLength`).
const LONGEST_OBJECT_NAME: usize = 253;

/// What is wrong with `manager`, each in a sentence that names the fix.
pub(super) fn find(manager: &Manager) -> Vec<String> {
    let mut problems = manager.definitions.problems();
    names(manager, &mut problems);
    checks(manager, &mut problems);
    kinds_of_run_time(manager, &mut problems);
    webhooks(manager, &mut problems);
    let mut handles = BTreeSet::new();
    for controller in &manager.controllers {
        let name = controller.name();
        for problem in &controller.problems {
            problems.push(format!("the controller `{name}` {problem}"));
        }
        if !controller
            .handles
            .iter()
            .all(|handle| handles.insert(handle))
        {
            problems.push(format!(
                "the `Watches` given to the controller `{name}` are given to another one, or twice: make one for each"
            ));
        }
    }
    problems
}

/// What is wrong with running `manager` as `config` says.
pub(super) fn of_config(manager: &Manager, config: &Config) -> Vec<String> {
    let known: Vec<&str> = manager.controllers.iter().map(|c| c.name()).collect();
    let unknown = config
        .workers
        .keys()
        .filter(|name| !known.contains(&&***name));
    let problem = |name: &String| {
        format!(
            "workers are given to a controller `{name}`, which {} does not have: it has {}",
            manager.name,
            known.join(", "),
        )
    };
    unknown.map(problem).collect()
}

fn names(manager: &Manager, problems: &mut Vec<String>) {
    let program = &manager.name;
    if program.is_empty() {
        problems.push("the program has no name: give it one in `Manager::new`".to_owned());
    }
    let mut seen = BTreeSet::new();
    let controllers = manager
        .declarations()
        .map(|d| ("controller", &*d.name, d.elected));
    let runnables = manager
        .runnables
        .iter()
        .map(|r| ("runnable", &*r.name, r.elected));
    for (what, name, elected) in controllers.chain(runnables) {
        if !seen.insert(name) {
            problems.push(format!(
                "two parts of {program} are called `{name}`: give one {what} another name"
            ));
        }
        if name.is_empty() {
            problems.push(format!("a {what} of {program} has an empty name"));
        }
        if name.chars().count() > LONGEST_NAME || name.contains(char::is_control) {
            problems.push(format!(
                "the {what} {name:?} cannot write under this name: no more than {LONGEST_NAME} \
                 characters that can be printed make a field manager"
            ));
        }
        let lease = format!("{program}-{name}");
        if elected == Elected::Alone && !is_object_name(&lease) {
            problems.push(format!(
                "the {what} `{name}` is elected alone, and no lease can be called `{lease}`: \
                 use small letters, digits, `-` and `.`"
            ));
        }
    }
}

fn checks(manager: &Manager, problems: &mut Vec<String>) {
    let mut seen = BTreeSet::from(["caches", "election", "webhooks"]);
    for check in &manager.checks {
        if !seen.insert(&check.name) {
            problems.push(format!(
                "there is more than one readiness check called `{}`: give this one another name",
                check.name
            ));
        }
    }
}

/// A watch of every kind takes a right that names them all.
fn kinds_of_run_time(manager: &Manager, problems: &mut Vec<String>) {
    let rights = DeclaredRights::new(&manager.name, manager.rights(&RightsOptions::default()));
    let may = |query| {
        // No kind is called so: only a right to all of them permits it.
        let request = Attributes::new(&Method::GET, "/apis/*/v1/*", query);
        request.is_some_and(|request| rights.permits(&request))
    };
    if may("") && may("watch=true") {
        return;
    }
    let of_any_kind = manager
        .controllers
        .iter()
        .filter(|c| c.rights.is_of_any_kind);
    for controller in of_any_kind {
        let name = controller.name();
        problems.push(format!(
            "the controller `{name}` watches every kind, and the program does not declare that it \
             may: add `.needs(Right::resource(\"*\", \"*\", Verb::List | Verb::Watch))`"
        ));
    }
}

fn webhooks(manager: &Manager, problems: &mut Vec<String>) {
    let (mut paths, mut names) = (BTreeSet::new(), BTreeSet::new());
    for webhook in &manager.webhooks {
        let path = webhook.path();
        for problem in webhook.problems() {
            problems.push(format!("the webhook at {path} {problem}"));
        }
        let name = webhook.configured_name(&manager.name);
        if !is_object_name(&name) {
            problems.push(format!(
                "no webhook can be called `{name}`: use small letters, digits, `-` and `.` in its name"
            ));
        }
        if !paths.insert(path.clone()) | !names.insert(name) {
            problems.push(format!(
                "there is more than one webhook at {path}: give one a name with `.named(…)`"
            ));
        }
    }
    problems.extend_from_slice(manager.conversions.problems());
    for hub in manager.conversions.hubs() {
        let mut definitions = manager.definitions.merged().iter();
        let is_defined = definitions.any(|definition| {
            let (spec, versions) = (&definition.spec, &definition.spec.versions);
            spec.group == hub.group
                && spec.names.kind == hub.kind
                && versions.iter().any(|version| version.name == hub.version)
        });
        if !is_defined {
            problems.push(format!(
                "versions are converted by way of {hub}, which the program does not define: add `.defines::<…>()` with its type"
            ));
        }
    }
}

/// Whether an object may be called so (apimachinery, util/validation: `IsDNS1123Subdomain`).
fn is_object_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty()
            && label.chars().all(fits)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= LONGEST_OBJECT_NAME && name.split('.').all(is_label)
}
