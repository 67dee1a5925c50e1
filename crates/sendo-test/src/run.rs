//! The runtime a test lives in.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use sendo_cluster::ClusterOptions;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::TestCluster;
use crate::troubles::Troubles;

/// Runs `test` on a fresh cluster whose every random choice follows from `seed`.
///
/// A panic of the test is passed on after the seed has been named, with the last
/// warnings and errors that were logged. With `RUST_LOG` set, what the cluster
/// and the programs on it log is shown.
pub fn run_with_seed<F>(seed: u64, test: impl FnOnce(TestCluster) -> F)
where
    F: Future<Output = ()>,
{
    let troubles = Troubles::default();
    let logged = || {
        block_on_paused(async {
            let _logs = show_logs(&troubles);
            on_cluster(seed, troubles.clone(), test).await;
        });
    };
    let outcome = catch_unwind(AssertUnwindSafe(logged));
    if let Err(panic) = outcome {
        eprintln!(
            "the test failed with seed {seed}: run it alone with `#[sendo_test::test(seed = {seed})]`"
        );
        let troubles = troubles.take();
        if !troubles.is_empty() {
            eprint!("the last warnings and errors, newest last:\n{troubles}");
        }
        resume_unwind(panic);
    }
}

/// Gathers warnings and errors, and shows this thread's logs, which are all the
/// test's logs, if `RUST_LOG` asks for them.
fn show_logs(troubles: &Troubles) -> tracing::subscriber::DefaultGuard {
    let shown = EnvFilter::try_from_default_env().ok().map(|filter| {
        tracing_subscriber::fmt::layer()
            .with_test_writer()
            .with_ansi(false)
            .without_time()
            .with_filter(filter)
    });
    let subscriber = tracing_subscriber::registry()
        .with(troubles.layer())
        .with(shown);
    tracing::subscriber::set_default(subscriber)
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

pub(crate) async fn on_cluster<F>(
    seed: u64,
    troubles: Troubles,
    test: impl FnOnce(TestCluster) -> F,
) where
    F: Future<Output = ()>,
{
    let cluster = TestCluster::start_watched(seed, ClusterOptions::default(), troubles).await;
    test(cluster.clone()).await;
    cluster.stop().await;
}
