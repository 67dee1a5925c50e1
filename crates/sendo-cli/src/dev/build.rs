//! A build of the program by cargo, which can be ended when its source changes again.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Deserializer, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::lines::{Lines, Source};
use super::process::{end_group, own_group, print_lines};
use crate::program::{NO_CARGO, cargo_command};
use crate::project::Project;

/// How a build ended.
#[derive(Debug)]
pub(super) enum Built {
    /// Where the program is, and how long it took.
    Done { program: PathBuf, took: Duration },
    /// The compiler has said why.
    Failed,
}

/// A build under way. Dropping it ends cargo and the compilers that it started.
#[derive(Debug)]
pub(super) struct Build {
    child: Child,
    program: String,
    began: Instant,
    /// What reads cargo's messages, and what prints what it says.
    output: JoinSet<Result<Vec<u8>>>,
    messages: Vec<u8>,
}

impl Build {
    /// Starts cargo.
    pub(super) fn start(project: &Project, lines: &Lines) -> Result<Self> {
        let program = project.program();
        let mut command = Command::from(cargo_command(&project.root));
        command
            .args(["build", "--bin", &program])
            .arg("--message-format=json-render-diagnostics")
            .arg(match lines.colour {
                true => "--color=always",
                false => "--color=never",
            })
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        own_group(&mut command);
        let mut child = command.spawn().context(NO_CARGO)?;
        let mut output = JoinSet::new();
        output.spawn(read_all(child.stdout.take()));
        let said = print_lines(child.stderr.take(), Source::Build, *lines);
        output.spawn(async move { said.await.map(|()| Vec::new()) });
        Ok(Build {
            child,
            program,
            began: Instant::now(),
            output,
            messages: Vec::new(),
        })
    }

    /// Waits for its end. Cancelled, it can be waited for again.
    pub(super) async fn ended(&mut self) -> Result<Built> {
        let status = self.child.wait().await?;
        while let Some(read) = self.output.join_next().await {
            self.messages.append(&mut read??);
        }
        if !status.success() {
            return Ok(Built::Failed);
        }
        let messages = Deserializer::from_slice(&self.messages).into_iter::<Value>();
        let program = messages.filter_map(Result::ok).find_map(|message| {
            let is_program = message["target"]["name"] == *self.program;
            let path = message["executable"].as_str().filter(|_| is_program)?;
            Some(PathBuf::from(path))
        });
        Ok(Built::Done {
            program: program
                .with_context(|| format!("cargo built no program `{}`", self.program))?,
            took: self.began.elapsed(),
        })
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        end_group(&self.child);
    }
}

async fn read_all(stream: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>> {
    let mut read = Vec::new();
    if let Some(mut stream) = stream {
        stream.read_to_end(&mut read).await?;
    }
    Ok(read)
}
