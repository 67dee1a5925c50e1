//! The tutorial as steps.
//!
//! - In a `console` block, a command follows `$ `, and what it prints, both streams in their order,
//!   follows it; `[exit 1]` ends one that fails. A command that ends in ` \` goes on in the next
//!   line, and here-documents are allowed.
//! - A command that ends in ` &` goes on in the background once it has printed what is below it;
//!   `$ fg` waits for what it prints next, and `^C` below it ends it.
//! - `console eventually`: a command is repeated until it prints what is expected.
//! - Any other block whose language is followed by a path is what the file is to be.

use std::fmt;

use anyhow::{Result, bail};

/// The steps in order.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) steps: Vec<Step>,
}

/// A command, or a file that is written.
#[derive(Debug)]
pub(super) struct Step {
    /// Where it is, counted from one.
    pub(super) line: usize,
    pub(super) action: Action,
    pub(super) expected: Vec<String>,
    pub(super) exit: i32,
    pub(super) eventually: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Run(String),
    Start(String),
    Foreground { interrupt: bool },
    Write { path: String, text: String },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Run(command) => write!(f, "$ {}", command.lines().next().unwrap_or_default()),
            Action::Start(command) => write!(f, "$ {command} &"),
            Action::Foreground { interrupt: false } => write!(f, "$ fg"),
            Action::Foreground { interrupt: true } => write!(f, "^C"),
            Action::Write { path, .. } => write!(f, "{path}"),
        }
    }
}

impl Document {
    /// Reads a tutorial; the error names the line.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut document = Document::default();
        let mut lines = (1..).zip(text.lines());
        while let Some((line, opening)) = lines.next() {
            let Some(words) = opening.strip_prefix("```") else {
                continue;
            };
            let mut block = Vec::new();
            loop {
                match lines.next() {
                    Some((_, "```")) => break,
                    Some(next) => block.push(next),
                    None => bail!("line {line}: the block has no end"),
                }
            }
            let words: Vec<&str> = words.split_whitespace().collect();
            match words[..] {
                ["console"] => document.commands(&block, false)?,
                ["console", "eventually"] => document.commands(&block, true)?,
                ["console", other] => bail!("line {line}: there is no mode `{other}`"),
                [_, path] => document.steps.push(Step {
                    line,
                    action: Action::Write {
                        path: path.to_owned(),
                        text: block.iter().map(|(_, text)| format!("{text}\n")).collect(),
                    },
                    expected: Vec::new(),
                    exit: 0,
                    eventually: false,
                }),
                _ => {}
            }
        }
        Ok(document)
    }

    fn commands(&mut self, block: &[(usize, &str)], eventually: bool) -> Result<()> {
        let mut lines = block.iter();
        while let Some((line, text)) = lines.next() {
            if let Some(command) = text.strip_prefix("$ ") {
                let mut command = command.to_owned();
                while let Some(stem) = command.strip_suffix('\\') {
                    let more = lines.next().map_or("", |(_, more)| more.trim());
                    command = format!("{stem}{more}");
                }
                if command.ends_with("<<EOF") {
                    for (_, more) in lines.by_ref() {
                        command = format!("{command}\n{more}");
                        if *more == "EOF" {
                            break;
                        }
                    }
                }
                self.steps.push(Step {
                    line: *line,
                    action: match (&*command, command.strip_suffix(" &")) {
                        ("fg", _) => Action::Foreground { interrupt: false },
                        (_, Some(started)) => Action::Start(started.to_owned()),
                        (_, None) => Action::Run(command),
                    },
                    expected: Vec::new(),
                    exit: 0,
                    eventually,
                });
                continue;
            }
            if *text == "^C" {
                self.steps.push(Step {
                    line: *line,
                    action: Action::Foreground { interrupt: true },
                    // What it says while it ends is not of interest.
                    expected: vec!["...".to_owned()],
                    exit: 0,
                    eventually: false,
                });
                continue;
            }
            let Some(step) = self.steps.last_mut() else {
                bail!("line {line}: output without a command");
            };
            let exit = text
                .strip_prefix("[exit ")
                .and_then(|rest| rest.strip_suffix(']'));
            match exit {
                Some(exit) => step.exit = exit.parse()?,
                None => step.expected.push((*text).to_owned()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_files_and_output_are_read() {
        let text = "# A
```console
$ sendo dev \\
    --samples &
ready
$ cat <<EOF
a
EOF
a
```
```rust src/lib.rs
fn f() {}
```
```rust
fn not_a_file() {}
```
```console eventually
$ false
[exit 1]
$ fg
...
^C
```
";
        let document = Document::parse(text).unwrap();
        let actions: Vec<&Action> = document.steps.iter().map(|step| &step.action).collect();
        assert_eq!(
            actions,
            [
                &Action::Start("sendo dev --samples".to_owned()),
                &Action::Run("cat <<EOF\na\nEOF".to_owned()),
                &Action::Write {
                    path: "src/lib.rs".to_owned(),
                    text: "fn f() {}\n".to_owned()
                },
                &Action::Run("false".to_owned()),
                &Action::Foreground { interrupt: false },
                &Action::Foreground { interrupt: true },
            ]
        );
        assert_eq!(document.steps[0].expected, ["ready"]);
        assert_eq!(
            (document.steps[3].exit, document.steps[3].eventually),
            (1, true)
        );
        assert!(Document::parse("```console\nx").is_err());
        assert!(Document::parse("```console slowly\n```").is_err());
    }
}
