//! A program as a process: which cluster it runs on, and what signals do to it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use clap::Parser;
use k8s_openapi::api::core::v1::Namespace;
use sendo::command::Args;
use sendo::rights::{Right, Verb};
use sendo::{Manager, everywhere};

/// Says how the program ends; without it, this is not the program.
const ROLE: &str = "PROGRAM_ROLE";
/// The program's flags.
const FLAGS: &str = "PROGRAM_FLAGS";

/// The program itself, which the tests below start as a process of its own.
#[test]
fn program() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let flags = std::env::var(FLAGS).unwrap_or_default();
    let args = Args::parse_from(["program"].into_iter().chain(flags.split_whitespace()));
    let threads = role.ends_with("threads");
    let work = everywhere("work", move |cx| async move {
        println!("program: at work");
        if role.starts_with("blocked") {
            loop {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let live = cx.client().live();
        let asked = live.get::<Namespace>("default");
        let _ = cx.stopping().run_until_cancelled(asked).await;
        cx.stopping().cancelled().await;
        println!("program: asked to stop");
        if role == "stubborn" {
            std::future::pending::<()>().await;
        }
        Ok(())
    });
    let mut runtime = match threads {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = runtime.enable_all().build();
    let run = Manager::new("program")
        .needs(Right::of::<Namespace>(Verb::Get))
        .runnable(work)
        .run_with(args);
    runtime.unwrap().block_on(run).unwrap();
}

struct Program {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// In a folder of its own, which is its home, too.
    fn start(role: &str, home: &Path, flags: &str, kubeconfig: Option<&Path>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["program::program", "--exact", "--nocapture"])
            .env(ROLE, role)
            .env(FLAGS, flags)
            .env("HOME", home)
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST");
        if let Some(kubeconfig) = kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        let log = std::fs::File::create(home.join("log")).unwrap();
        command.stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Program { child, lines }
    }

    fn says(&mut self, words: &str) {
        let said = |line: std::io::Result<String>| line.unwrap().contains(words);
        assert!(self.lines.by_ref().any(said), "it never said {words:?}");
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A kubeconfig that leads to a listener, and word when somebody has come there.
fn cluster(file: &Path) -> mpsc::Receiver<()> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
         clusters: [{{name: c, cluster: {{server: {server}}}}}], users: [{{name: u, user: {{}}}}]}}"
    );
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
    let (tell, reported) = mpsc::channel();
    std::thread::spawn(move || {
        if listener.accept().is_ok() {
            let _ = tell.send(());
        }
    });
    reported
}

#[test]
fn the_flag_comes_before_the_environment_and_that_before_the_home_folder() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let of_home = cluster(&at(".kube/config"));
    let of_environment = cluster(&at("environment"));
    let of_flag = cluster(&at("flag"));
    let flag = format!("--kubeconfig {}", at("flag").display());
    let patience = Duration::from_secs(30);

    let all = Program::start("quick", home.path(), &flag, Some(&at("environment")));
    of_flag.recv_timeout(patience).unwrap();
    drop(all);
    assert!(of_environment.try_recv().is_err() && of_home.try_recv().is_err());
    let two = Program::start("quick", home.path(), "", Some(&at("environment")));
    of_environment.recv_timeout(patience).unwrap();
    drop(two);
    assert!(of_home.try_recv().is_err());
    let _one = Program::start("quick", home.path(), "", None);
    of_home.recv_timeout(patience).unwrap();
}

#[test]
fn a_kubeconfig_that_is_not_there_is_reported_with_the_variable_that_names_it() {
    let home = tempfile::tempdir().unwrap();
    let missing = home.path().join("missing");
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["program::program", "--exact", "--nocapture"])
        .env(ROLE, "quick")
        .env("KUBECONFIG", &missing)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .unwrap();
    assert!(!ended.status.success());
    let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    let words = format!("cannot use $KUBECONFIG, which is {}", missing.display());
    assert!(said.contains(&words), "{said}");
}

#[test]
fn a_signal_stops_in_order_and_a_second_one_at_once() {
    let home = tempfile::tempdir().unwrap();
    let _cluster = cluster(&home.path().join(".kube/config"));
    for (role, first, second, code) in [
        ("quick", "-INT", None, 0),
        ("stubborn", "-TERM", Some("-INT"), 1),
    ] {
        let mut program = Program::start(role, home.path(), "--shutdown-timeout 60", None);
        program.says("at work");
        program.signal(first);
        program.says("asked to stop");
        if let Some(second) = second {
            program.signal(second);
        }
        assert_eq!(program.child.wait().unwrap().code(), Some(code), "{role}");
    }
}

#[test]
fn the_process_ends_and_names_who_did_not_stop() {
    let home = tempfile::tempdir().unwrap();
    let _cluster = cluster(&home.path().join(".kube/config"));
    for (role, code, words) in [
        ("stubborn", 101, "did not stop within 1s: `work`"),
        ("blocked", 1, "a thread is blocked"),
        ("blocked threads", 1, "cannot be cut off"),
    ] {
        let mut program = Program::start(role, home.path(), "--shutdown-timeout 1", None);
        program.says("at work");
        program.signal("-TERM");
        assert_eq!(program.child.wait().unwrap().code(), Some(code), "{role}");
        let log = std::fs::read_to_string(home.path().join("log")).unwrap();
        assert!(log.contains(words) && log.contains("work"), "{role}: {log}");
    }
}

#[test]
fn a_second_signal_ends_a_blocked_process_at_once() {
    let home = tempfile::tempdir().unwrap();
    let _cluster = cluster(&home.path().join(".kube/config"));
    let mut program = Program::start("blocked", home.path(), "--shutdown-timeout 600", None);
    program.says("at work");
    program.signal("-TERM");
    let logged = |words: &str| {
        let log = std::fs::read_to_string(home.path().join("log")).unwrap();
        log.contains(words)
    };
    while !logged("a second signal ends at once") {
        std::thread::yield_now();
    }
    program.signal("-TERM");
    assert_eq!(program.child.wait().unwrap().code(), Some(1));
}
