//! The log of a run, to be compared with another's.

use std::future::Future;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::TestCluster;
use crate::recent_logs::RecentLogs;
use crate::run::{block_on_paused, on_cluster};

/// What a run left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Every log line of every part, with virtual time, in order.
    pub log: String,
    /// Every change of every object, with virtual time, in order.
    pub changes: String,
}

/// Runs `test` like [`run_with_seed`](crate::run_with_seed) and records it, the
/// library's logs at level DEBUG included. Two recordings with one seed are equal to the byte.
pub fn record<F>(seed: u64, test: impl FnOnce(TestCluster) -> F) -> Recording
where
    F: Future<Output = ()>,
{
    let log = Buffer::default();
    let changes = Arc::new(Mutex::new(String::new()));
    let kept = changes.clone();
    block_on_paused(async {
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter("info,sendo=debug")
            .with_ansi(false)
            .with_timer(SinceStart(tokio::time::Instant::now()))
            .with_writer(log.clone())
            .finish();
        // The thread is the runtime's only one, so the guard covers all that runs.
        let _guard = tracing::subscriber::set_default(subscriber);
        on_cluster(seed, RecentLogs::default(), |cluster| async move {
            test(cluster.clone()).await;
            *kept.lock() = cluster.changes();
        })
        .await;
    });
    let log = String::from_utf8_lossy(&log.0.lock()).into_owned();
    let changes = changes.lock().clone();
    Recording { log, changes }
}

/// Virtual time since the run began.
struct SinceStart(tokio::time::Instant);

impl FormatTime for SinceStart {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        write!(writer, "{:>14.6}", self.0.elapsed().as_secs_f64())
    }
}

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Buffer {
    type Writer = Buffer;
    fn make_writer(&'a self) -> Buffer {
        self.clone()
    }
}
