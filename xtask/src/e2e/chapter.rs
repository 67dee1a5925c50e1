//! Chapters: Markdown that reads like a manual and runs as a test.
//!
//! A chapter is one file. Each `##` heading names a step; the `console` block
//! below it holds commands after `$ ` and what they print, standard output
//! before standard error. Prose around the blocks is for the reader.
//!
//! ````text
//! ## Pods are found by label
//!
//! ```console
//! $ kubectl get pods --selector=app=web
//! NAME       READY   STATUS    RESTARTS   AGE
//! web-<id>   1/1     Running   0          <age>
//! ```
//! ````
//!
//! - Input follows the command as a here-document: `<<EOF`, lines, `EOF`.
//! - Environment variables precede the command: `KUBE_EDITOR='sed -i s/a/b/' kubectl …`.
//! - `cat >file <<EOF` writes a file; commands run in the chapter's own folder.
//! - A command that fails ends with a line `[exit 1]`.
//! - A command that ends in ` &` goes on in the background once it has printed
//!   the lines below it; `$ fg` waits for what it prints next, and `^C` as
//!   the last line stops it.
//! - Words after `console` change how a block is run, see [`Mode`].

use std::collections::VecDeque;
use std::path::{Component, Path};

use anyhow::{Context as _, bail};

/// A file of steps that build on each other, in a namespace of their own.
#[derive(Debug)]
pub(super) struct Chapter {
    /// The name of the file without its extension.
    pub(super) name: &'static str,
    /// In order.
    pub(super) steps: Vec<Step>,
}

/// A named block of commands.
#[derive(Debug)]
pub(super) struct Step {
    /// The heading.
    pub(super) name: String,
    /// How the block is run.
    pub(super) mode: Mode,
    /// In order.
    pub(super) commands: Vec<Line>,
}

/// The words after `console`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    /// `embedded`: what is printed holds only for a cluster of `sendo up`.
    pub(super) embedded: bool,
    /// `eventually`: each command is repeated until it prints what is expected.
    pub(super) eventually: bool,
    /// `cleanup`: the block runs even when a step before it failed.
    pub(super) cleanup: bool,
    /// `unordered`: lines that begin with `* ` may come in any order, like the errors of
    /// Kubernetes about a custom resource.
    pub(super) unordered: bool,
}

/// A command and what it must print.
#[derive(Debug)]
pub(super) struct Line {
    /// Where it is in the file, counted from one.
    pub(super) number: usize,
    /// The command as it is written.
    pub(super) text: String,
    /// What is done.
    pub(super) action: Action,
    /// The lines it must print.
    pub(super) expected: Vec<String>,
    /// The exit code it must end with.
    pub(super) exit: i32,
}

/// What a command line does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Runs kubectl to its end.
    Run(Invocation),
    /// Starts kubectl.
    Start(Invocation),
    /// Continues with the started command; a `^C` stops it.
    Foreground { stop: bool },
    /// Writes a file into the chapter's folder.
    Write { file: String, text: String },
}

/// kubectl with its environment, arguments and input.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Invocation {
    /// The environment variables before the command.
    pub(super) environment: Vec<(String, String)>,
    /// The arguments.
    pub(super) words: Vec<String>,
    /// The standard input.
    pub(super) input: String,
}

impl Chapter {
    /// Reads a chapter.
    ///
    /// # Errors
    ///
    /// When a block is not in the form described above; the error names the line.
    pub(super) fn parse(name: &'static str, text: &str) -> anyhow::Result<Self> {
        let mut steps = Vec::new();
        let mut heading = None;
        let mut lines = (1..).zip(text.lines());
        while let Some((number, line)) = lines.next() {
            if let Some(title) = line.strip_prefix("## ") {
                heading = Some(title.trim().to_owned());
            }
            let Some(words) = line.strip_prefix("```") else {
                continue;
            };
            let at = || format!("{name}.md:{number}");
            let inside = lines.by_ref().take_while(|(_, line)| *line != "```");
            let block: Vec<_> = inside.collect();
            let own_heading = heading.take();
            steps.push(Step {
                mode: Mode::parse(words).with_context(at)?,
                name: own_heading
                    .with_context(|| format!("{}: a block needs a heading of its own", at()))?,
                commands: commands(&block).with_context(at)?,
            });
        }
        Ok(Self { name, steps })
    }
}

impl Mode {
    fn parse(words: &str) -> anyhow::Result<Self> {
        let mut mode = Self::default();
        let mut words = words.split_whitespace();
        if words.next() != Some("console") {
            bail!("only `console` blocks are run");
        }
        for word in words {
            match word {
                "embedded" => mode.embedded = true,
                "eventually" => mode.eventually = true,
                "cleanup" => mode.cleanup = true,
                "unordered" => mode.unordered = true,
                other => bail!("`{other}` says nothing about a block"),
            }
        }
        Ok(mode)
    }
}

fn commands(block: &[(usize, &str)]) -> anyhow::Result<Vec<Line>> {
    let mut commands: Vec<Line> = Vec::new();
    let mut block = block.iter();
    while let Some(&(number, line)) = block.next() {
        let Some(text) = line.strip_prefix("$ ") else {
            let command = commands.last_mut();
            command
                .context("the block begins with no command")?
                .output(line)?;
            continue;
        };
        let (command, input) = match text.split_once(" <<") {
            Some((command, end)) => {
                let lines = block.by_ref().map(|(_, line)| *line);
                let lines: Vec<_> = lines.take_while(|line| *line != end).collect();
                (command, lines.join("\n") + "\n")
            }
            None => (text, String::new()),
        };
        commands.push(Line {
            number,
            text: text.to_owned(),
            action: Action::parse(command, input)?,
            expected: Vec::new(),
            exit: 0,
        });
    }
    Ok(commands)
}

impl Line {
    fn output(&mut self, line: &str) -> anyhow::Result<()> {
        let exit = line.strip_prefix("[exit ");
        if let Some(code) = exit.and_then(|line| line.strip_suffix(']')) {
            self.exit = code.parse().with_context(|| line.to_owned())?;
        } else if line == "^C" {
            let Action::Foreground { stop } = &mut self.action else {
                bail!("^C stops what `fg` brought back");
            };
            *stop = true;
        } else {
            self.expected.push(line.to_owned());
        }
        Ok(())
    }
}

impl Action {
    fn parse(command: &str, input: String) -> anyhow::Result<Self> {
        if command == "fg" {
            return Ok(Self::Foreground { stop: false });
        }
        if let Some(file) = command.strip_prefix("cat >") {
            let file = file.trim().to_owned();
            if !Path::new(&file).components().all(is_inside) {
                bail!("`{file}` is not in the chapter's folder");
            }
            return Ok(Self::Write { file, text: input });
        }
        let foreground = command.strip_suffix(" &");
        let mut words = VecDeque::from(words(foreground.unwrap_or(command))?);
        let mut environment = Vec::new();
        while let Some((name, value)) = words.front().and_then(|word| setting(word)) {
            environment.push((name, value));
            words.pop_front();
        }
        if words.pop_front().as_deref() != Some("kubectl") {
            bail!("only kubectl is run, not `{command}`");
        }
        let invocation = Invocation {
            environment,
            words: words.into(),
            input,
        };
        Ok(match foreground {
            Some(_) => Self::Start(invocation),
            None => Self::Run(invocation),
        })
    }
}

fn is_inside(part: Component<'_>) -> bool {
    matches!(part, Component::Normal(_))
}

/// An environment variable `NAME=value` before a command.
fn setting(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let is_name = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    is_name.then(|| (name.to_owned(), value.to_owned()))
}

/// Splits a command line as a shell does, with both kinds of quotes.
fn words(line: &str) -> anyhow::Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        bail!("a quote is not closed: {line}");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# Boats

Prose.

## A boat is launched

```console
$ kubectl create -f - <<EOF
kind: Boat

name: a
EOF
boat/a created
```

## It is seen

More prose.

```console embedded eventually
$ kubectl get boats --watch &
NAME

a
$ kubectl get boat b -o 'jsonpath={.a b}'
Error from server (NotFound): boats \"b\" not found
[exit 1]
$ fg
b
^C
```
";

    #[test]
    fn headings_name_the_blocks_below_them() {
        let chapter = Chapter::parse("boats", TEXT).unwrap();
        let names: Vec<_> = chapter.steps.iter().map(|step| &*step.name).collect();
        assert_eq!(names, ["A boat is launched", "It is seen"]);
        assert_eq!(chapter.steps[0].mode, Mode::default());
        let expected = Mode {
            embedded: true,
            eventually: true,
            ..Mode::default()
        };
        assert_eq!(chapter.steps[1].mode, expected);
    }

    #[test]
    fn a_here_document_is_the_input() {
        let chapter = Chapter::parse("boats", TEXT).unwrap();
        let create = &chapter.steps[0].commands[0];
        let expected = Invocation {
            words: ["create", "-f", "-"].map(str::to_owned).to_vec(),
            input: "kind: Boat\n\nname: a\n".to_owned(),
            ..Invocation::default()
        };
        assert_eq!(create.action, Action::Run(expected));
        assert_eq!(create.expected, ["boat/a created"]);
        assert_eq!(create.number, 8);
    }

    #[test]
    fn output_exit_code_and_interrupt_belong_to_the_command_above() {
        let chapter = Chapter::parse("boats", TEXT).unwrap();
        let [watch, get, back] = &chapter.steps[1].commands[..] else {
            panic!("three commands");
        };
        let expected = Invocation {
            words: ["get", "boats", "--watch"].map(str::to_owned).to_vec(),
            ..Invocation::default()
        };
        assert_eq!(watch.action, Action::Start(expected));
        assert_eq!(watch.expected, ["NAME", "", "a"]);
        assert_eq!(get.exit, 1);
        assert_eq!(get.expected.len(), 1);
        assert_eq!(back.action, Action::Foreground { stop: true });
        assert_eq!(back.expected, ["b"]);
    }

    #[test]
    fn environment_variables_precede_the_command() {
        let action = Action::parse(
            "KUBE_EDITOR='sed -i s/a/b/' kubectl edit cm a",
            String::new(),
        );
        let expected = Invocation {
            environment: vec![("KUBE_EDITOR".to_owned(), "sed -i s/a/b/".to_owned())],
            words: ["edit", "cm", "a"].map(str::to_owned).to_vec(),
            ..Invocation::default()
        };
        assert_eq!(action.unwrap(), Action::Run(expected));
    }

    #[test]
    fn a_file_is_written_in_the_folder_of_the_chapter_only() {
        let write = |command| Action::parse(command, "a: 1\n".to_owned());
        let expected = Action::Write {
            file: "base/a.yaml".to_owned(),
            text: "a: 1\n".to_owned(),
        };
        assert_eq!(write("cat >base/a.yaml").unwrap(), expected);
        assert!(write("cat >../a.yaml").is_err());
        assert!(write("cat >/etc/motd").is_err());
    }

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(
            words(r#"get -o 'jsonpath={.items[*]} x' a="b c" """#).unwrap(),
            ["get", "-o", "jsonpath={.items[*]} x", "a=b c", ""]
        );
        assert!(words("get 'x").is_err());
    }

    #[test]
    fn a_block_that_cannot_be_run_is_refused_with_its_line() {
        let refused = |text: &str| {
            let error = Chapter::parse("boats", text).unwrap_err();
            format!("{error:#}")
        };
        let other = "## A\n```console\n$ rm -r x\n```";
        assert!(refused(other).starts_with("boats.md:2: only kubectl"));
        assert!(refused("```console\n$ kubectl get pods\n```").contains("heading of its own"));
        assert!(refused("## A\n```console slowly\n```").contains("`slowly`"));
        assert!(refused("## A\n```yaml\n```").contains("only `console`"));
    }
}
