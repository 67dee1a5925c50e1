//! Runs a test on a runtime with paused time.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use sendo_cluster::ClusterOptions;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::TestCluster;
use crate::recent_logs::RecentLogs;

/// Runs `test` on a fresh cluster whose every random choice follows from `seed`.
///
/// If the test panics, the seed and the last warnings and errors are printed before the panic is
/// resumed. With `RUST_LOG` set, what the cluster
/// and the programs on it log is shown.
pub fn run_with_seed<F>(seed: u64, test: impl FnOnce(TestCluster) -> F)
where
    F: Future<Output = ()>,
{
    let recent_logs = RecentLogs::default();
    let run = || {
        block_on_paused(async {
            let _logs = subscribe(&recent_logs);
            on_cluster(seed, recent_logs.clone(), test).await;
        });
    };
    let result = catch_unwind(AssertUnwindSafe(run));
    if let Err(panic) = result {
        eprintln!(
            "the test failed with seed {seed}: run it alone with `#[sendo_test::test(seed = {seed})]`"
        );
        let recent_logs = recent_logs.take();
        if !recent_logs.is_empty() {
            eprint!("the last warnings and errors, newest last:\n{recent_logs}");
        }
        resume_unwind(panic);
    }
}

/// Collects warnings and errors of this thread, which is the only one of the test, and shows its
/// logs if `RUST_LOG` is set.
fn subscribe(recent_logs: &RecentLogs) -> tracing::subscriber::DefaultGuard {
    let shown = EnvFilter::try_from_default_env().ok().map(|filter| {
        tracing_subscriber::fmt::layer()
            .with_test_writer()
            .with_ansi(false)
            .without_time()
            .with_filter(filter)
    });
    let subscriber = tracing_subscriber::registry()
        .with(recent_logs.layer())
        .with(shown);
    tracing::subscriber::set_default(subscriber)
}

/// Drives `future` on a single thread, with a clock that advances when all tasks wait.
pub(crate) fn block_on_paused<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime for one thread");
    runtime.block_on(future)
}

pub(crate) async fn on_cluster<F>(
    seed: u64,
    recent_logs: RecentLogs,
    test: impl FnOnce(TestCluster) -> F,
) where
    F: Future<Output = ()>,
{
    let cluster = TestCluster::start_with_logs(seed, ClusterOptions::default(), recent_logs).await;
    test(cluster.clone()).await;
    cluster.stop().await;
}
