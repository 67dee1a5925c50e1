//! Liveness and readiness: named checks behind `/healthz` and `/readyz`.
//!
//! Each answers `ok` when all of its checks pass, and 500 with one line per check when one does
//! not. `?verbose` shows the lines in any case, `?exclude=name` leaves a check out, and
//! `/readyz/name` runs one alone.
//!
//! ```
//! use sendo::health::Checks;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), sendo::health::CheckNameTaken> {
//! let ready = Checks::new();
//! ready.add("database", || async { Err("connection refused") })?;
//! let report = ready.run(&sendo::World::seeded(1), &[]).await;
//! assert!(!report.passed());
//! assert_eq!(report.lines(), "[-]database failed: connection refused\n");
//! # Ok(())
//! # }
//! ```

mod checks;
mod serve;

pub use checks::{CheckNameTaken, Checks, Report};
pub use serve::{Probes, serve};
