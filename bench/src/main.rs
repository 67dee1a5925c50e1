//! Figures of the library and of the embedded cluster, printed as tables.
//!
//! ```text
//! cargo build --release -p sendo-cli -p sendo-bench
//! cargo run --release -p sendo-bench
//! cargo run --release -p sendo-bench -- queue
//! cargo run --release -p sendo-bench -- peers webhooks
//! ```

mod memory;
mod peers;
mod pods;
mod queue;
mod reconcile;
mod schemas;
mod server;
mod webhooks;

use std::path::PathBuf;

use clap::Parser;

/// Measures the library
#[derive(Parser)]
struct Args {
    /// What to measure [default: everything but what takes Go]
    #[arg(value_enum)]
    what: Vec<What>,

    /// A real API server to measure beside `sendo up`, by its kubeconfig
    #[arg(long, value_name = "KUBECONFIG", env = "SENDO_REAL_KUBECONFIG")]
    real: Option<PathBuf>,

    /// The ids of that server's processes, to be halted while others have their turn
    #[arg(long, value_name = "PIDS", value_delimiter = ',', requires = "real")]
    real_processes: Vec<u32>,

    /// One measurement of memory, in this process
    #[arg(long, hide = true)]
    held: Option<memory::Measured>,

    /// The port on which this process decides about reviews
    #[arg(long, hide = true, requires = "certificates")]
    decide_at: Option<u16>,

    /// The folder of its certificate
    #[arg(long, hide = true)]
    certificates: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// The work queue, at a thousand keys and at a million
    Queue,
    /// A queued key; a cached Pod, as it is and compact
    Memory,
    /// No-op reconciles a second, and from an event to its reconcile
    Reconcile,
    /// Applies a second, custom resources and their definitions
    Schemas,
    /// `sendo up` as a process, over TLS
    Server,
    /// What a validating webhook on loopback adds to a create
    Webhook,
    /// Reviews a second, and the memory of who decides about them: Sendo and controller-runtime,
    /// which is built on demand
    Webhooks,
    /// The same work done by Sendo, by kube-rs and by controller-runtime, which
    /// are built on demand
    Peers,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    if let Some(held) = args.held {
        return runtime.block_on(memory::hold(held));
    }
    if let (Some(port), Some(folder)) = (args.decide_at, &args.certificates) {
        return runtime.block_on(webhooks::serve(folder, port));
    }
    if cfg!(debug_assertions) {
        println!("(a development build: figures of a release build are better)\n");
    }
    let wanted = |what| args.what.is_empty() || args.what.contains(&what);
    if wanted(What::Queue) {
        runtime.block_on(queue::measure());
    }
    if wanted(What::Memory) {
        memory::measure()?;
    }
    if wanted(What::Reconcile) {
        runtime.block_on(reconcile::measure())?;
    }
    if wanted(What::Schemas) {
        runtime.block_on(schemas::measure())?;
    }
    if wanted(What::Server) {
        // The client is one thread, and the server has the rest.
        let client = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        client.block_on(server::measure(args.real.as_deref(), args.real_processes))?;
    }
    if wanted(What::Webhook) {
        let client = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        client.block_on(server::webhook::measure(args.real.as_deref()))?;
    }
    if args.what.contains(&What::Webhooks) {
        let client = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        client.block_on(webhooks::measure())?;
    }
    if args.what.contains(&What::Peers) {
        runtime.block_on(peers::measure())?;
    }
    Ok(())
}

fn to_anyhow(error: sendo::Error) -> anyhow::Error {
    anyhow::Error::msg(error.to_string())
}
