//! What a manager does about leadership: it competes, starts the leader's work when
//! it has won, and cuts that off when it has lost.

use futures::future::join_all;

use super::run::{Life, Work, start_group};
use super::stop::{LET_GO, Part};
use crate::election::{Election, ElectionOptions, Status};
use crate::error::Result;
use crate::events::{EventSeverity, Recorder};
use crate::metrics::LeaderMetrics;

impl Life {
    /// Competes for leadership; the leader's work starts when it is won. When it
    /// is lost that work is cut off, and the manager ends. Both are recorded as
    /// Events about the Lease, worded as in client-go v1.34, `tools/leaderelection`
    /// (`leaderelection.go`, `resourcelock/leaselock.go`).
    pub(super) fn elect(&self, election: Election, work: Vec<Work>, recorder: Recorder) {
        let tasks = self.worlds.election.tasks();
        let (client, release) = (self.config.client.clone(), self.release.clone());
        let (failures, goes_on) = (self.failures.clone(), self.goes_on.clone());
        let clock = self.config.world.clock().clone();
        let candidate = election.clone();
        let led = Led(work.iter().map(|work| work.part.clone()).collect());
        tasks.spawn("election", async move {
            let Err(lost) = candidate.run(client, &release).await else {
                return;
            };
            // Before the others are notified: from here on another may lead.
            led.cut_off();
            if clock.timeout(LET_GO, led.ended()).await.is_none() {
                let parts = led.running();
                tracing::error!(?parts, "goes on without leading, as it never waits");
                goes_on.cancel();
            }
            // Another failure may have ended the manager first.
            let _ = failures.send(lost.into());
        });
        let failures = self.failures.clone();
        let stopping = self.worlds.leader.tasks().stopping().clone();
        tasks.spawn("leader's start", async move {
            let won = stopping.run_until_cancelled(election.acquired()).await;
            let Some(Some(leadership)) = won else {
                return;
            };
            let record = |change: &str| {
                let message = format!("{} {change}", election.identity());
                let (lease, reason) = (&leadership.lease, "LeaderElection");
                recorder.event(lease, EventSeverity::Normal, reason, message);
            };
            record("became leader");
            start_group(work, &failures);
            leadership.lost.cancelled().await;
            record("stopped leading");
        });
    }

    /// A candidate for a lease. While it leads, or competes and the API server
    /// answers it, the program is ready.
    pub(super) fn candidate(&self, check: &str, mut options: ElectionOptions) -> Result<Election> {
        let metrics = LeaderMetrics::new(&self.metrics, &options.name);
        options.metrics.get_or_insert(metrics);
        let election = Election::new(&self.worlds.election, options)?;
        let candidate = election.clone();
        self.probes.ready.add(check, move || {
            let over = matches!(*candidate.status().borrow(), Status::Over);
            let problem = match over {
                true => Some("leadership has ended, and so does this process".to_owned()),
                false => candidate.connection_problem(),
            };
            async move { problem.map_or(Ok(()), Err) }
        })?;
        self.elections.lock().push(election.clone());
        Ok(election)
    }
}

/// The parts of a leader, which are cut off when this is dropped: an election that
/// is cut off or panics leaves no work behind that believes in it.
struct Led(Vec<Part>);

impl Led {
    fn cut_off(&self) {
        self.0.iter().for_each(|part| part.tasks.cut_off());
    }

    async fn ended(&self) {
        join_all(self.0.iter().map(|part| part.tasks.ended())).await;
    }

    fn running(&self) -> Vec<String> {
        let running = self.0.iter();
        let running = running.filter(|part| !part.tasks.running().is_empty());
        running.map(ToString::to_string).collect()
    }
}

impl Drop for Led {
    fn drop(&mut self) {
        self.cut_off();
    }
}
