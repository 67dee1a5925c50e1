//! The program's own kinds: installed before it starts, if asked for.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use sendo_world::Clock;

use crate::client::{self, Client};
use crate::error::{Error, Result};
use crate::object::{ObjectExt, ObjectKey};

/// How often the API server is asked whether it serves a kind yet.
const POLL: Duration = Duration::from_millis(250);

/// How long to wait after a request that got no answer.
const AGAIN: Duration = Duration::from_secs(1);

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
            let conversion = known.spec.conversion.take();
            known.spec = wanted.spec.clone();
            known.spec.conversion = known.spec.conversion.take().or(conversion);
            for (name, value) in wanted.metadata.labels.iter().flatten() {
                let labels = known.metadata.labels.get_or_insert_default();
                labels.insert(name.clone(), value.clone());
            }
        };
        match client.create_or_update(wanted.clone(), change).await {
            Ok(client::Outcome::Created(_)) => tracing::info!(name, "kind installed"),
            Ok(client::Outcome::Updated(_)) => tracing::info!(name, "kind brought up to date"),
            Ok(client::Outcome::Unchanged(_)) => {}
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

async fn established(
    client: &Client,
    clock: &Clock,
    wanted: &CustomResourceDefinition,
) -> Result<()> {
    let key = ObjectKey::cluster(wanted.name());
    let mut told = String::new();
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
        if why != told {
            tracing::info!(name = %key, why, "waiting for the kind to be served");
            told = why;
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
fn is_passing(error: &client::Error) -> bool {
    let unanswered = matches!(error, client::Error::Transport { .. });
    unanswered || error.is_conflict() || error.code() == 429 || error.code() >= 500
}
