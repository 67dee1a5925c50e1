//! The flags of `sendo up` for the audit log of the API server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use sendo_cluster::{Audit, AuditLog, AuditPolicy, AuditRotation};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Which requests are recorded, and where.
#[derive(Debug, Args)]
pub(crate) struct AuditFlags {
    /// Record requests in the audit log by the rules of this file, a Policy of audit.k8s.io/v1
    #[arg(long, value_name = "FILE", requires = "audit_log")]
    audit_policy: Option<PathBuf>,

    /// Where the audit log is written, one JSON event a line; `-` for standard output
    #[arg(long, value_name = "FILE", requires = "audit_policy")]
    audit_log: Option<PathBuf>,

    /// Begin a new log file when one has so many megabytes
    #[arg(long, value_name = "MB", default_value_t = 100, requires = "audit_log",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    audit_log_maxsize: u64,

    /// How many full log files are kept; all by default
    #[arg(long, value_name = "N", requires = "audit_log")]
    audit_log_maxbackup: Option<usize>,

    /// How many days full log files are kept; for ever by default
    #[arg(long, value_name = "DAYS", requires = "audit_log")]
    audit_log_maxage: Option<u32>,
}

impl AuditFlags {
    /// The audit log that the flags describe; `None` without them.
    pub(crate) fn audit(&self) -> Result<Option<Audit>> {
        let (Some(policy), Some(log)) = (&self.audit_policy, &self.audit_log) else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(policy)
            .with_context(|| format!("--audit-policy {} cannot be read", policy.display()))?;
        let policy = AuditPolicy::from_text(&text)
            .with_context(|| format!("--audit-policy {} cannot be used", policy.display()))?;
        let log = match log == Path::new("-") {
            true => AuditLog::stdout(),
            false => {
                let rotation = AuditRotation {
                    max_bytes: self.audit_log_maxsize << 20,
                    max_backups: self.audit_log_maxbackup,
                    max_age: self.audit_log_maxage.map(|days| DAY * days),
                };
                AuditLog::file(log, rotation)
                    .with_context(|| format!("--audit-log {} cannot be written", log.display()))?
            }
        };
        Ok(Some(Audit { policy, log }))
    }
}
