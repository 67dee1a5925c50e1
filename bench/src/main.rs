//! Figures of the library and of the embedded cluster, printed as tables.
//!
//! ```text
//! cargo build --release -p sendo-cli -p sendo-bench
//! cargo run --release -p sendo-bench
//! cargo run --release -p sendo-bench -- queue
//! ```

mod memory;
mod pods;
mod queue;
mod reconcile;
mod schemas;
mod server;

use clap::Parser;

/// Measures the library
#[derive(Parser)]
struct Args {
    /// What to measure [default: everything]
    #[arg(value_enum)]
    what: Vec<What>,

    /// A real API server to measure beside `sendo up`, by its kubeconfig
    #[arg(long, value_name = "KUBECONFIG", env = "SENDO_REAL_KUBECONFIG")]
    real: Option<std::path::PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// The work queue, at a thousand keys and at a million
    Queue,
    /// A cached Pod, as it is and compact
    Memory,
    /// No-op reconciles a second, and from an event to its reconcile
    Reconcile,
    /// Applies a second, custom resources and their definitions
    Schemas,
    /// `sendo up` as a process, over TLS
    Server,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let wanted = |what| args.what.is_empty() || args.what.contains(&what);
    if cfg!(debug_assertions) {
        println!("(a development build: figures of a release build are better)\n");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    if wanted(What::Queue) {
        runtime.block_on(queue::measure());
    }
    if wanted(What::Memory) {
        runtime.block_on(memory::measure())?;
    }
    if wanted(What::Reconcile) {
        runtime.block_on(reconcile::measure())?;
    }
    if wanted(What::Schemas) {
        runtime.block_on(schemas::measure())?;
    }
    if wanted(What::Server) {
        runtime.block_on(server::measure(args.real.as_deref()))?;
    }
    Ok(())
}
