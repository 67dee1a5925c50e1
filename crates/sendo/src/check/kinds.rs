//! Whether the kinds are there that a program defines, watches or reads.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{Options, Report, schema};
use crate::error::Result;
use crate::manager::Manager;
use crate::object::{Kind, ObjectExt};

/// How many differences of a schema are shown.
const SHOWN: usize = 5;

pub(super) async fn check(
    manager: &Manager,
    client: &Client,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    for definition in manager.definitions_in(&options.namespace) {
        check_definition(manager, client, &definition, report).await?;
    }
    let is_own = |kind: &Kind| {
        let mut definitions = manager.definitions().iter();
        definitions
            .any(|one| (&one.spec.group, &one.spec.names.plural) == (&kind.group, &kind.plural))
    };
    let mut served = BTreeMap::<String, BTreeSet<String>>::new();
    for kind in manager.kinds().into_iter().filter(|kind| !is_own(kind)) {
        let version = kind.api_version();
        if !served.contains_key(&version) {
            let resources = resources_of(client, &kind).await?;
            served.insert(version.clone(), resources);
        }
        match served[&version].contains(&kind.plural) {
            true => report.passed.push(format!("{kind} is served")),
            false => report.error(
                &kind.to_string(),
                format!("the cluster does not serve {} in {version}", kind.plural),
                "install what defines it, or use a cluster of a release that has it",
            ),
        }
    }
    Ok(())
}

/// The resources of a group and version; none if it is not served.
async fn resources_of(client: &Client, kind: &Kind) -> Result<BTreeSet<String>> {
    let version = kind.api_version();
    let listed = match kind.group.is_empty() {
        true => client.list_core_api_resources(&version).await,
        false => client.list_api_group_resources(&version).await,
    };
    match listed {
        Ok(list) => Ok(list.resources.into_iter().map(|one| one.name).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(BTreeSet::new()),
        Err(error) => Err(error.into()),
    }
}

async fn check_definition(
    manager: &Manager,
    client: &Client,
    wanted: &CustomResourceDefinition,
    report: &mut Report,
) -> Result<()> {
    let name = wanted.name();
    let about = format!("CustomResourceDefinition {name}");
    let install = format!(
        "install it: `{} crds | kubectl apply --server-side -f -`, or `sendo install`",
        manager.name()
    );
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let found = match api.get_opt(name).await {
        Ok(Some(found)) => found,
        Ok(None) => {
            report.error(&about, "it is not in the cluster", install);
            return Ok(());
        }
        Err(error) => return report.unreadable(&about, error),
    };
    let before = report.findings.len();
    if let Some(why) = why_not_served(&found) {
        report.error(
            &about,
            format!("the API server does not serve it: {why}"),
            "delete the kind that has its names, or give yours others",
        );
    }
    if found.spec.scope != wanted.spec.scope {
        report.error(
            &about,
            format!(
                "its scope is {}, and the program's {}",
                found.spec.scope, wanted.spec.scope
            ),
            format!("a scope cannot be changed: delete it, with all its objects, and {install}"),
        );
    }
    if found.spec.names.kind != wanted.spec.names.kind {
        let (theirs, ours) = (&found.spec.names.kind, &wanted.spec.names.kind);
        report.error(
            &about,
            format!("its kind is {theirs}, and the program's {ours}"),
            install.clone(),
        );
    }
    for version in &wanted.spec.versions {
        let versions = &mut found.spec.versions.iter();
        let Some(known) = versions.find(|known| known.name == version.name) else {
            report.error(
                &about,
                format!("it has no version {}", version.name),
                install.clone(),
            );
            continue;
        };
        if version.served && !known.served {
            report.error(
                &about,
                format!("its version {} is not served", version.name),
                install.clone(),
            );
        }
        if version.storage != known.storage {
            let problem = match version.storage {
                true => format!(
                    "objects are not stored in version {}, as the program has it",
                    version.name
                ),
                false => format!(
                    "objects are stored in version {}, and not so in the program",
                    version.name
                ),
            };
            report.warning(&about, problem, install.clone());
        }
        let as_value = |one: &_| serde_json::to_value(one).unwrap_or(Value::Null);
        let differences = schema::differences(
            &as_value(&known.schema)["openAPIV3Schema"],
            &as_value(&version.schema)["openAPIV3Schema"],
        );
        if !differences.is_empty() {
            let more = differences.len().saturating_sub(SHOWN);
            let mut shown: Vec<String> = differences.into_iter().take(SHOWN).collect();
            if more > 0 {
                shown.push(format!("and {more} more"));
            }
            let problem = format!(
                "the schema of {} differs from the program's: {}",
                version.name,
                shown.join("; ")
            );
            report.warning(&about, problem, install.clone());
        }
        if json!(known.subresources) != json!(version.subresources) {
            let problem = format!(
                "the subresources of {} differ from the program's",
                version.name
            );
            report.error(&about, problem, install.clone());
        }
    }
    let strategy = |one: &CustomResourceDefinition| {
        let conversion = one.spec.conversion.as_ref();
        conversion.map_or("None".to_owned(), |conversion| conversion.strategy.clone())
    };
    if strategy(&found) != strategy(wanted) {
        let (theirs, ours) = (strategy(&found), strategy(wanted));
        let problem =
            format!("its versions are converted by {theirs}, and by the program's by {ours}");
        report.error(&about, problem, install);
    }
    if report.findings.len() == before {
        report
            .passed
            .push(format!("{about} is as the program has it"));
    }
    Ok(())
}

fn why_not_served(definition: &CustomResourceDefinition) -> Option<String> {
    let conditions = definition
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut why = "it has not looked at it yet".to_owned();
    for condition in conditions {
        match (&*condition.type_, &*condition.status) {
            ("Established", "True") => return None,
            ("NamesAccepted", "False") => why = condition.message.clone().unwrap_or_default(),
            _ => {}
        }
    }
    Some(why)
}
