//! The program's own kinds: gathered from its types, and installed before it
//! starts, if asked for.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionSpec,
};

use sendo_world::Clock;

use crate::client::{self, Client};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectExt, ObjectKey};

/// How often the API server is asked whether it serves a kind yet.
const POLL: Duration = Duration::from_millis(250);

/// How long to wait after a request that got no answer.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// The program's own kinds: one definition for all versions of each.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    merged: Vec<CustomResourceDefinition>,
    /// What cannot be merged, each in a sentence that names the fix.
    problems: Vec<String>,
    /// The versions that only a webhook of the program can convert.
    converted: Vec<ConvertedVersion>,
}

/// A version that is converted by a webhook.
#[derive(Clone, Debug)]
struct ConvertedVersion {
    definition: String,
    version: String,
}

impl Definitions {
    /// Adds a kind, or another version of one that is known.
    pub(super) fn add(&mut self, definition: CustomResourceDefinition) {
        let same_kind = |known: &&mut CustomResourceDefinition| {
            let (known, new) = (&known.spec, &definition.spec);
            let (a, b) = (&known.names, &new.names);
            known.group == new.group && (a.kind == b.kind || a.plural == b.plural)
        };
        let Some(known) = self.merged.iter_mut().find(same_kind) else {
            self.merged.push(definition);
            return;
        };
        let (name, kind) = (known.name().to_owned(), &definition.spec.names.kind);
        let differences = differences(&known.spec, &definition.spec);
        if !differences.is_empty() {
            let differences = differences.join(", ");
            self.problems.push(format!(
                "the versions of {kind} in {} differ in: {differences}; a kind has these in common for all its versions, so give each `#[kube(…)]` the same",
                known.spec.group
            ));
        }
        for version in definition.spec.versions {
            let mut versions = known.spec.versions.iter();
            match versions.find(|before| before.name == version.name) {
                None => known.spec.versions.push(version),
                Some(same) if *same == version => {}
                Some(_) => self.problems.push(format!(
                    "version {} of {name} is defined twice, with different types: leave one of them out",
                    version.name
                )),
            }
        }
    }

    /// Adds a version that a webhook converts.
    pub(super) fn add_converted(&mut self, definition: CustomResourceDefinition) {
        for version in &definition.spec.versions {
            self.converted.push(ConvertedVersion {
                definition: definition.name().to_owned(),
                version: version.name.clone(),
            });
        }
        self.add(definition);
    }

    /// The definitions for a cluster in which nobody converts: what needs a conversion is not
    /// served.
    pub(super) fn without_conversions(&self) -> Vec<CustomResourceDefinition> {
        let mut definitions = self.merged.clone();
        for definition in &mut definitions {
            let name = definition.name().to_owned();
            for version in &mut definition.spec.versions {
                let mut converted = self.converted.iter();
                version.served &=
                    !converted.any(|one| (&one.definition, &one.version) == (&name, &version.name));
            }
        }
        definitions
    }

    /// Whether a kind is one of them, in any version.
    pub(super) fn has(&self, kind: &Kind) -> bool {
        let mut specs = self.merged.iter().map(|definition| &definition.spec);
        specs.any(|spec| spec.group == kind.group && spec.names.plural == kind.plural)
    }

    /// The definitions, as they would be installed.
    pub(super) fn merged(&self) -> &[CustomResourceDefinition] {
        &self.merged
    }

    /// What the API server would refuse, each in a sentence that names the fix.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = self.problems.clone();
        for definition in &self.merged {
            let versions = &definition.spec.versions;
            let stored = versions.iter().filter(|version| version.storage);
            let stored: Vec<&str> = stored.map(|version| &*version.name).collect();
            let name = definition.name();
            match &stored[..] {
                [_] => {}
                [] => problems.push(format!(
                    "no version of {name} is the one that is stored: take `storage = false` out of the `#[kube(…)]` of one of its types"
                )),
                several => problems.push(format!(
                    "{name} can be stored in one version, not in {}: write `#[kube(storage = false)]` on the types of the others",
                    several.join(" and ")
                )),
            }
        }
        problems
    }
}

/// What two versions of a kind do not have in common and should have.
fn differences(
    one: &CustomResourceDefinitionSpec,
    other: &CustomResourceDefinitionSpec,
) -> Vec<&'static str> {
    let (a, b) = (&one.names, &other.names);
    // Left out and empty are one.
    let list = |names: &Option<Vec<String>>| names.clone().unwrap_or_default();
    let differ = [
        ("kind", a.kind != b.kind),
        ("scope", one.scope != other.scope),
        ("plural", a.plural != b.plural),
        ("singular", a.singular != b.singular),
        ("short names", list(&a.short_names) != list(&b.short_names)),
        ("categories", list(&a.categories) != list(&b.categories)),
    ];
    let differ = differ.into_iter().filter(|(_, differ)| *differ);
    differ.map(|(what, _)| what).collect()
}

/// Makes every definition as the program wants it, and waits until all are served.
///
/// Fails if the API server refuses one; waits as long as it does not answer.
pub(super) async fn install(
    client: &Client,
    clock: &Clock,
    definitions: &[CustomResourceDefinition],
) -> Result<()> {
    for definition in definitions {
        apply(client, clock, definition).await?;
    }
    for definition in definitions {
        established(client, clock, definition).await?;
    }
    Ok(())
}

async fn apply(client: &Client, clock: &Clock, wanted: &CustomResourceDefinition) -> Result<()> {
    let name = wanted.name();
    loop {
        // Labels and annotations of others stay, and so does how versions are converted.
        let change = |known: &mut CustomResourceDefinition| {
            let before = std::mem::replace(&mut known.spec, wanted.spec.clone());
            let conversion = conversion_of(known.spec.conversion.take(), before.conversion);
            if conversion
                .as_ref()
                .is_some_and(|one| one.strategy == "Webhook")
            {
                // Another replica converts what this process does not.
                for version in &mut known.spec.versions {
                    let mut before = before.versions.iter();
                    version.served |= before.any(|v| v.name == version.name && v.served);
                }
            }
            known.spec.conversion = conversion;
            for (name, value) in wanted.metadata.labels.iter().flatten() {
                let labels = known.metadata.labels.get_or_insert_default();
                labels.insert(name.clone(), value.clone());
            }
        };
        match client.create_or_update(wanted.clone(), change).await {
            Ok(client::OperationResult::Created(_)) => tracing::info!(name, "kind installed"),
            Ok(client::OperationResult::Updated(_)) => {
                tracing::info!(name, "kind brought up to date")
            }
            Ok(client::OperationResult::Unchanged(_)) => {}
            Err(error) if is_passing(&error) => {
                tracing::warn!(name, %error, "cannot install the kind yet");
                clock.sleep(AGAIN).await;
                continue;
            }
            Err(error) => {
                let text = format!("cannot install the CustomResourceDefinition {name}: {error}");
                return Err(Error::terminal(text));
            }
        }
        return Ok(());
    }
}

/// Has the versions of the kinds converted as the program wants it, where the cluster has them
/// and knows the versions. Leaves everything else of a definition alone.
pub(super) async fn convert(
    client: &Client,
    clock: &Clock,
    definitions: &[CustomResourceDefinition],
) -> Result<()> {
    for wanted in definitions.iter().filter(|d| d.spec.conversion.is_some()) {
        let name = wanted.name();
        loop {
            let change = |known: &mut CustomResourceDefinition| {
                let known = &mut known.spec.conversion;
                *known = conversion_of(wanted.spec.conversion.clone(), known.take());
            };
            let key = ObjectKey::cluster(name);
            match client
                .modify::<CustomResourceDefinition, ()>(&key, change)
                .await
            {
                Ok(_) => break,
                Err(error) if error.is_not_found() => {
                    tracing::warn!(name, "the kind is not installed: none of it is converted");
                    break;
                }
                Err(error) if is_passing(&error) => {
                    tracing::warn!(name, %error, "cannot have the kind converted yet");
                    clock.sleep(AGAIN).await;
                }
                Err(error) => {
                    let text = format!(
                        "cannot set the conversion of the CustomResourceDefinition {name}: {error}"
                    );
                    return Err(Error::terminal(text));
                }
            }
        }
    }
    Ok(())
}

/// The conversion that is to be: one that the program does not say anything about stays, and so
/// do the authorities that are trusted, if it names none.
fn conversion_of(
    wanted: Option<CustomResourceConversion>,
    known: Option<CustomResourceConversion>,
) -> Option<CustomResourceConversion> {
    let Some(mut wanted) = wanted else {
        return known;
    };
    let known = known.and_then(|known| known.webhook?.client_config);
    let config = wanted.webhook.as_mut();
    if let Some(config) = config.and_then(|webhook| webhook.client_config.as_mut())
        && config.ca_bundle.is_none()
    {
        config.ca_bundle = known.and_then(|known| known.ca_bundle);
    }
    Some(wanted)
}

async fn established(
    client: &Client,
    clock: &Clock,
    wanted: &CustomResourceDefinition,
) -> Result<()> {
    let key = ObjectKey::cluster(wanted.name());
    let mut logged = String::new();
    loop {
        let found = client
            .live()
            .get::<CustomResourceDefinition>(key.clone())
            .await;
        let why = match found {
            Ok(Some(definition)) => match why_not_served(&definition) {
                None => return Ok(()),
                Some(why) => why,
            },
            Ok(None) => {
                let text = format!(
                    "the CustomResourceDefinition {key} was deleted while it was waited for"
                );
                return Err(Error::message(text));
            }
            Err(error) if is_passing(&error) => error.to_string(),
            Err(error) => return Err(error.into()),
        };
        if why != logged {
            tracing::info!(name = %key, why, "waiting for the kind to be served");
            logged = why;
        }
        clock.sleep(POLL).await;
    }
}

fn why_not_served(definition: &CustomResourceDefinition) -> Option<String> {
    let conditions = definition
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut why = "the API server has not looked at it yet".to_owned();
    for condition in conditions {
        match (condition.type_.as_str(), condition.status.as_str()) {
            ("Established", "True") => return None,
            ("NamesAccepted", "False") => why = condition.message.clone().unwrap_or_default(),
            _ => {}
        }
    }
    Some(why)
}

/// Whether the same request may succeed later.
pub(super) fn is_passing(error: &client::Error) -> bool {
    let unanswered = matches!(error, client::Error::Transport { .. });
    unanswered || error.is_conflict() || error.code() == 429 || error.code() >= 500
}

#[cfg(test)]
mod tests {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use crate::Manager;

    /// A version of a kind, in a module of its own.
    macro_rules! version {
        ($module:ident, $($kube:tt)*) => {
            mod $module {
                use super::*;

                #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
                #[kube(group = "example.dev", kind = "Bar", $($kube)*)]
                pub(crate) struct BarSpec {
                    pub(crate) $module: String,
                }
            }
        };
    }

    version!(old, version = "v1alpha1", namespaced, storage = false);
    version!(new, version = "v1", namespaced);
    version!(next, version = "v2", namespaced);
    version!(same_version, version = "v1", namespaced);
    version!(other_scope, version = "v3", storage = false);
    version!(
        other_names,
        version = "v3",
        namespaced,
        plural = "barz",
        shortname = "b",
        storage = false
    );

    #[test]
    fn versions_of_a_kind_are_one_definition_whose_program_says_what_is_stored() {
        for program in [
            Manager::new("p")
                .defines::<old::Bar>()
                .defines::<new::Bar>(),
            Manager::new("p")
                .defines::<new::Bar>()
                .defines::<old::Bar>(),
        ] {
            assert_eq!(program.problems(), [""; 0]);
            let [definition] = program.definitions() else {
                panic!("{:?}", program.definitions())
            };
            let versions = &definition.spec.versions;
            let mut versions: Vec<_> = versions
                .iter()
                .map(|v| (&*v.name, v.served, v.storage))
                .collect();
            versions.sort_unstable();
            assert_eq!(versions, [("v1", true, true), ("v1alpha1", true, false)]);
            let schema = serde_json::to_string(&definition.spec).unwrap();
            assert!(
                schema.contains("\"old\"") && schema.contains("\"new\""),
                "{schema}"
            );
        }
    }

    impl crate::webhook::Convert for old::Bar {
        type Hub = new::Bar;

        fn to_hub(self) -> crate::Result<new::Bar> {
            let spec = new::BarSpec { new: self.spec.old };
            let metadata = self.metadata;
            Ok(new::Bar { metadata, spec })
        }

        fn from_hub(hub: new::Bar) -> crate::Result<old::Bar> {
            let spec = old::BarSpec { old: hub.spec.new };
            let metadata = hub.metadata;
            Ok(old::Bar { metadata, spec })
        }
    }

    #[test]
    fn a_version_that_nobody_converts_is_not_served() {
        let program = Manager::new("p").defines::<new::Bar>().serves::<old::Bar>();
        assert_eq!(program.problems(), [""; 0]);
        let served = |definitions: &[super::CustomResourceDefinition]| {
            let versions = definitions[0].spec.versions.iter();
            let served = versions.filter(|v| v.served).map(|v| v.name.clone());
            served.collect::<Vec<_>>()
        };
        assert_eq!(served(&program.definitions.without_conversions()), ["v1"]);
        let converted = program.definitions_in("system");
        assert_eq!(served(&converted), ["v1", "v1alpha1"]);
        let conversion = serde_json::to_value(&converted[0].spec.conversion).unwrap();
        assert_eq!(conversion["strategy"], "Webhook");
        let service = &conversion["webhook"]["clientConfig"]["service"];
        assert_eq!(service["namespace"], "system");
        assert_eq!(service["name"], "p-webhooks");
        assert_eq!(service["path"], "/convert");

        let alone = Manager::new("p").serves::<old::Bar>();
        let problems = alone.problems();
        let undefined = "versions are converted by way of bars.example.dev/v1, which the program does not define: add `.defines::<…>()` with its type";
        assert!(problems.iter().any(|p| p == undefined), "{problems:?}");
    }

    #[test]
    fn a_version_that_is_named_twice_is_there_once() {
        let program = Manager::new("p")
            .defines::<new::Bar>()
            .defines::<new::Bar>();
        assert_eq!(program.problems(), [""; 0]);
        assert_eq!(program.definitions()[0].spec.versions.len(), 1);
    }

    #[test]
    fn contradictions_between_versions_are_problems_that_name_the_fix() {
        let problem = |program: Manager| {
            let mut problems = program.problems();
            assert_eq!(problems.len(), 1, "{problems:?}");
            problems.remove(0)
        };
        let none = problem(Manager::new("p").defines::<old::Bar>());
        assert_eq!(
            none,
            "no version of bars.example.dev is the one that is stored: \
             take `storage = false` out of the `#[kube(…)]` of one of its types"
        );
        let two = Manager::new("p")
            .defines::<new::Bar>()
            .defines::<next::Bar>();
        assert_eq!(
            problem(two),
            "bars.example.dev can be stored in one version, not in v1 and v2: \
             write `#[kube(storage = false)]` on the types of the others"
        );
        let with_new = || Manager::new("p").defines::<new::Bar>();
        let scope = problem(with_new().defines::<other_scope::Bar>());
        assert!(
            scope.contains("the versions of Bar in example.dev differ in: scope;"),
            "{scope}"
        );
        let names = problem(with_new().defines::<other_names::Bar>());
        assert!(names.contains("differ in: plural, short names;"), "{names}");
        let twice = problem(with_new().defines::<same_version::Bar>());
        assert!(
            twice.contains("version v1 of bars.example.dev is defined twice"),
            "{twice}"
        );
    }
}
