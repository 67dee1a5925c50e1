//! Whether a program could run on a cluster, asked of the cluster: its kinds, its rights, its
//! webhooks. Nothing is changed, and each finding names its fix.

mod kinds;
mod rights;
mod schema;
mod webhooks;

use std::fmt;

use kube::Client;
use serde::Serialize;

use crate::error::Result;
use crate::manager::{Manager, RightsOptions};

/// What is asked about.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace that the program runs in.
    pub namespace: String,
    /// How it runs, as far as its rights depend on that.
    pub rights: RightsOptions,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What is wrong, kinds before rights before webhooks.
    pub findings: Vec<Finding>,
    /// What was asked and is fine, in a sentence each.
    pub passed: Vec<String>,
}

/// Something that is not as the program needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about, such as `CustomResourceDefinition bars.example.dev`.
    pub about: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to do about it.
    pub fix: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The program does not work, or a part of it.
    Error,
    /// It works, and not as declared; or it could not be found out.
    Warning,
}

impl Report {
    /// Whether the program could run: there is no error among the findings.
    pub fn is_fine(&self) -> bool {
        let mut findings = self.findings.iter();
        !findings.any(|finding| finding.severity == Severity::Error)
    }

    fn error(&mut self, about: &str, problem: impl Into<String>, fix: impl Into<String>) {
        self.add(Severity::Error, about, problem.into(), fix.into());
    }

    fn warning(&mut self, about: &str, problem: impl Into<String>, fix: impl Into<String>) {
        self.add(Severity::Warning, about, problem.into(), fix.into());
    }

    fn add(&mut self, severity: Severity, about: &str, problem: String, fix: String) {
        self.findings.push(Finding {
            severity,
            about: about.to_owned(),
            problem,
            fix,
        });
    }

    /// What a request failed for: a finding if the caller may not read that, an error of the whole
    /// check if there is no answer.
    fn unreadable(&mut self, about: &str, error: kube::Error) -> Result<()> {
        match &error {
            kube::Error::Api(status) if status.code == 403 => {
                let fix = "ask as somebody who may read it, or with `--as` an administrator";
                self.warning(
                    about,
                    format!("you may not read it: {}", status.message),
                    fix,
                );
                Ok(())
            }
            _ => Err(error.into()),
        }
    }
}

/// For people, a paragraph for each finding.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.passed {
            writeln!(f, "ok       {line}")?;
        }
        for finding in &self.findings {
            let word = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            writeln!(f, "{word:<8} {}: {}", finding.about, finding.problem)?;
            writeln!(f, "         fix: {}", finding.fix)?;
        }
        Ok(())
    }
}

impl Manager {
    /// Asks a cluster whether the program could run there, as the user of `client`.
    ///
    /// # Errors
    ///
    /// If the cluster does not answer.
    pub async fn check_cluster(&self, client: &Client, options: &Options) -> Result<Report> {
        let mut report = Report::default();
        kinds::check(self, client, options, &mut report).await?;
        rights::check(self, client, options, &mut report).await?;
        webhooks::check(self, client, options, &mut report).await?;
        Ok(report)
    }
}
