//! The runtime a test lives in.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::TestCluster;

/// Runs `test` on a fresh cluster whose every random choice follows from `seed`.
///
/// A panic of the test is passed on after the seed has been named. With
/// `RUST_LOG` set, what the cluster and the programs on it log is shown.
pub fn run_with_seed<F>(seed: u64, test: impl FnOnce(TestCluster) -> F)
where
    F: Future<Output = ()>,
{
    let logged = || {
        let _logs = show_logs();
        block_on_paused(on_cluster(seed, test));
    };
    let outcome = catch_unwind(AssertUnwindSafe(logged));
    if let Err(panic) = outcome {
        eprintln!(
            "the test failed with seed {seed}: run it alone with `#[sendo_test::test(seed = {seed})]`"
        );
        resume_unwind(panic);
    }
}

/// Shows this thread's logs, which are all the test's logs, if `RUST_LOG` asks for them.
fn show_logs() -> Option<tracing::subscriber::DefaultGuard> {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().ok()?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_test_writer()
        .with_ansi(false)
        .without_time()
        .finish();
    Some(tracing::subscriber::set_default(subscriber))
}

/// Drives `future` on a single thread with a clock that leaps when all wait.
pub(crate) fn block_on_paused<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime for one thread");
    runtime.block_on(future)
}

pub(crate) async fn on_cluster<F>(seed: u64, test: impl FnOnce(TestCluster) -> F)
where
    F: Future<Output = ()>,
{
    let cluster = TestCluster::start(seed).await;
    test(cluster.clone()).await;
    cluster.stop().await;
}
