//! `sendo add`: adds a kind, a version, a controller or webhooks to a project.

mod api;
mod controller;
mod conversion;
mod minimal;
mod version;
mod webhook;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Add a kind, a version of one, a controller or webhooks to the project in this folder
///
/// New code is put into files of its own, and their place is declared where the
/// program is: `pub mod …;`, and calls after `Manager::new(…)`. The rest of your
/// code stays as it is, comments and layout included. Where that place is not
/// found, nothing is changed, and what to write where is printed.
#[derive(Debug, Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  sendo add api example.dev/v1alpha1/Bar       a kind of your own, with its controller
  sendo add version v1 --of Bar                another version of it
  sendo add controller --for apps/v1/Deployment
                                               a controller for a kind that is there
  sendo add webhook Bar --default --validate   what is asked before a Bar is stored
  sendo add api example.dev/v1/Foo --dry-run   only shows what would change"
)]
pub(crate) struct Add {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    Api(api::AddApi),
    Version(version::AddVersion),
    Controller(controller::AddController),
    Webhook(webhook::AddWebhook),
}

impl Add {
    pub(crate) fn run(self) -> Result<()> {
        match self.part {
            Part::Api(api) => api.run(),
            Part::Version(version) => version.run(),
            Part::Controller(controller) => controller.run(),
            Part::Webhook(webhook) => webhook.run(),
        }
    }
}
