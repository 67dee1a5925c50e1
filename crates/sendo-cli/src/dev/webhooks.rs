//! What a session leaves behind: a cluster that calls webhooks of a program that is gone refuses
//! what they were for, so their registrations go with it.

use anyhow::Result;
use serde_json::{Value, json};

use super::lines::{Lines, Source};
use crate::api::{Api, text};

const CONFIGURATIONS: [&str; 2] = [
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
];

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Removes the registrations of webhooks at this address of this machine.
pub(super) async fn forget(api: &Api, address: &str, lines: &Lines) {
    if let Err(error) = try_forget(api, address, lines).await {
        lines.say(
            Source::Dev,
            format!("webhooks at {address} may still be registered: {error:#}"),
        );
    }
}

async fn try_forget(api: &Api, address: &str, lines: &Lines) -> Result<()> {
    let root = format!("https://{address}");
    let is_own = |config: &Value| {
        let rest = text(config, "/url").strip_prefix(&root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    for list in CONFIGURATIONS {
        for found in api.list(list).await? {
            let webhooks = found["webhooks"].as_array().into_iter().flatten();
            if webhooks.map(|webhook| &webhook["clientConfig"]).any(is_own) {
                let name = text(&found, "/metadata/name");
                api.delete(&format!("{list}/{name}")).await?;
                lines.say(
                    Source::Dev,
                    format!("the webhooks of {name} are gone with the program"),
                );
            }
        }
    }
    for found in api.list(DEFINITIONS).await? {
        if is_own(&found["spec"]["conversion"]["webhook"]["clientConfig"]) {
            let name = text(&found, "/metadata/name");
            let change = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
            api.merge(&format!("{DEFINITIONS}/{name}"), &change).await?;
            lines.say(Source::Dev, format!("{name} is not converted any more"));
        }
    }
    Ok(())
}
