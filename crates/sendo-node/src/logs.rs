//! What the API server asks a node: the logs of containers.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubelet/kubelet_pods.go`: `GetKubeletContainerLogs`, `validateContainerLogStatus`
//! - `staging/src/k8s.io/cri-client/pkg/logs/logs.go`: `ReadLogs`, `parseCRILog`
//! - `staging/src/k8s.io/cri-client/pkg/logs/tail.go`: `FindTailLineStartIndex`

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use k8s_openapi::api::core::v1;
use sendo::{Clock, Timestamp};
use serde_json::json;

use crate::pod::Pod;
use crate::runtime::{ContainerRuntime, LogReader, Run};

/// How often the log of a running container is looked at for more.
const LOOK: Duration = Duration::from_millis(100);

/// Which part of a log is wanted, and in which form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogOptions {
    /// What is written later too, until the container ends.
    pub follow: bool,
    /// The log of the run before the newest one.
    pub previous: bool,
    /// Only what was written since then.
    pub since: Option<Timestamp>,
    /// Only so many of the last lines.
    pub tail: Option<usize>,
    /// Each line with its time.
    pub timestamps: bool,
    /// No more than so many bytes.
    pub limit_bytes: Option<usize>,
}

/// What a node is asked. Cheap to clone.
#[derive(Clone)]
pub struct NodeApi {
    runtime: Arc<dyn Runs>,
}

impl std::fmt::Debug for NodeApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeApi").finish_non_exhaustive()
    }
}

/// A container runtime of any kind.
trait Runs: Send + Sync {
    /// The newest run of a container, and the one before it.
    fn runs(&self, pod: &Pod, container: &str, now: Timestamp) -> (Option<Run>, Option<Run>);

    fn log(&self, pod: &Pod, container: &str, run: &Run) -> Box<dyn LogReader>;
}

impl<R: ContainerRuntime> Runs for R {
    fn runs(&self, pod: &Pod, container: &str, now: Timestamp) -> (Option<Run>, Option<Run>) {
        match self.observe(pod, now).runs.remove(container) {
            Some(runs) => (Some(runs.current), runs.last),
            None => (None, None),
        }
    }

    fn log(&self, pod: &Pod, container: &str, run: &Run) -> Box<dyn LogReader> {
        ContainerRuntime::log(self, pod, container, run)
    }
}

impl NodeApi {
    pub(crate) fn new<R: ContainerRuntime>(runtime: Arc<R>) -> Self {
        NodeApi { runtime }
    }

    /// The log of a container.
    ///
    /// # Errors
    /// If there is no such log, with the words of Kubernetes.
    pub fn log(
        &self,
        pod: &v1::Pod,
        container: &str,
        options: LogOptions,
        clock: &Clock,
    ) -> Result<BoxStream<'static, Vec<u8>>, String> {
        let pod: Pod = serde_json::from_value(json!(pod)).map_err(|error| error.to_string())?;
        let run = self.run(&pod, container, options.previous, clock.wall())?;
        let follows = options.follow && run.is_active();
        let mut reader = self.runtime.log(&pod, container, &run);
        let mut form = Form::new(options);
        let first = form.first(&reader.read());
        if !follows || form.is_full() {
            return Ok(stream::iter([first]).boxed());
        }
        let following = Following {
            runtime: self.runtime.clone(),
            pod,
            container: container.to_owned(),
            run: run.id,
            reader,
            form,
            clock: clock.clone(),
        };
        let later = stream::unfold(Some(following), |following| async move {
            following?.next().await
        });
        Ok(stream::iter([first]).chain(later).boxed())
    }

    /// The run whose log is wanted.
    fn run(
        &self,
        pod: &Pod,
        container: &str,
        previous: bool,
        now: Timestamp,
    ) -> Result<Run, String> {
        let (current, last) = self.runtime.runs(pod, container, now);
        let name = pod.metadata.name.clone().unwrap_or_default();
        if previous {
            return last.ok_or_else(|| {
                format!("previous terminated container {container:?} in pod {name:?} not found")
            });
        }
        let waits = |run: &Run| !run.is_running() && run.exit().is_none();
        match current {
            Some(run) if waits(&run) => match last {
                Some(last) => Ok(last),
                None => Err(waiting(pod, container)),
            },
            Some(run) => Ok(run),
            None => Err(waiting(pod, container)),
        }
    }
}

fn waiting(pod: &Pod, container: &str) -> String {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let lists = pod.status.iter().flat_map(|status| {
        [
            &status.init_container_statuses,
            &status.container_statuses,
            &status.ephemeral_container_statuses,
        ]
    });
    let mut statuses = lists
        .flatten()
        .flatten()
        .filter(|status| status.name == container);
    let waiting =
        statuses.find_map(|status| status.state.as_ref()?.waiting.as_ref()?.reason.clone());
    match waiting.as_deref() {
        None => format!("container {container:?} in pod {name:?} is not available"),
        Some("ImagePullBackOff") => format!(
            "container {container:?} in pod {name:?} is waiting to start: trying and failing to pull image"
        ),
        Some("ErrImagePull") => format!(
            "container {container:?} in pod {name:?} is waiting to start: image can't be pulled"
        ),
        Some(reason) => {
            format!("container {container:?} in pod {name:?} is waiting to start: {reason}")
        }
    }
}

/// A log that is read while its container runs.
struct Following {
    runtime: Arc<dyn Runs>,
    pod: Pod,
    container: String,
    /// The identifier of the run.
    run: String,
    reader: Box<dyn LogReader>,
    form: Form,
    clock: Clock,
}

impl Following {
    /// What is written next; waits for it.
    async fn next(mut self) -> Option<(Vec<u8>, Option<Following>)> {
        loop {
            self.clock.sleep(LOOK).await;
            let (current, _) = self
                .runtime
                .runs(&self.pod, &self.container, self.clock.wall());
            let runs = current.is_some_and(|run| run.id == self.run && run.is_active());
            // What it wrote before it ended is read after its end is known.
            let text = self.form.all(&self.reader.read());
            let goes_on = runs && !self.form.is_full();
            match text.is_empty() {
                true if goes_on => {}
                true => return None,
                false => return Some((text, goes_on.then_some(self))),
            }
        }
    }
}

/// The form in which lines are sent.
struct Form {
    options: LogOptions,
    /// Whether the last line was only a part of one.
    is_within_line: bool,
    sent: usize,
}

impl Form {
    fn new(options: LogOptions) -> Self {
        Form {
            options,
            is_within_line: false,
            sent: 0,
        }
    }

    /// Whether nothing more may be sent.
    fn is_full(&self) -> bool {
        self.options
            .limit_bytes
            .is_some_and(|limit| self.sent >= limit)
    }

    /// What is sent of what was there, of which perhaps only the last lines are wanted.
    fn first(&mut self, log: &[u8]) -> Vec<u8> {
        let Some(tail) = self.options.tail else {
            return self.all(log);
        };
        let mut last = VecDeque::with_capacity(tail.min(1024));
        for line in log.split_inclusive(|byte| *byte == b'\n') {
            if last.len() == tail {
                last.pop_front();
            }
            if tail > 0 {
                last.push_back(line);
            }
        }
        let lines: Vec<&[u8]> = last.into();
        self.all(&lines.concat())
    }

    fn all(&mut self, log: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        for line in log.split(|byte| *byte == b'\n') {
            if let Some(line) = parse(line).filter(|line| self.is_wanted(line)) {
                if self.options.timestamps && !self.is_within_line {
                    text.extend_from_slice(line.at.as_bytes());
                    text.push(b' ');
                }
                text.extend_from_slice(line.text);
                if line.is_whole {
                    text.push(b'\n');
                }
                self.is_within_line = !line.is_whole;
            }
        }
        if let Some(limit) = self.options.limit_bytes {
            text.truncate(limit.saturating_sub(self.sent));
        }
        self.sent += text.len();
        text
    }

    fn is_wanted(&self, line: &Line<'_>) -> bool {
        let Some(since) = self.options.since else {
            return true;
        };
        line.at.parse::<Timestamp>().is_ok_and(|at| at >= since)
    }
}

/// One line of a log, or a part of one.
struct Line<'l> {
    at: &'l str,
    is_whole: bool,
    text: &'l [u8],
}

fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let at = std::str::from_utf8(parts.next()?).ok()?;
    let _stream = parts.next()?;
    let is_whole = parts.next()? == b"F";
    Some(Line {
        at,
        is_whole,
        text: parts.next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026-01-01T00:00:01.000000000Z stdout F one\n\
        2026-01-01T00:00:02.000000000Z stderr P tw\n\
        2026-01-01T00:00:02.000000000Z stderr F o\n\
        2026-01-01T00:00:03.000000000Z stdout F three words here\n";

    fn text(options: LogOptions) -> String {
        let text = Form::new(options).first(LOG.as_bytes());
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_log_is_sent_as_options_say() {
        assert_eq!(text(LogOptions::default()), "one\ntwo\nthree words here\n");
        let tail = |tail| LogOptions {
            tail: Some(tail),
            ..LogOptions::default()
        };
        assert_eq!(text(tail(1)), "three words here\n");
        assert_eq!(text(tail(0)), "");
        assert_eq!(text(tail(99)), text(LogOptions::default()));
        let since = LogOptions {
            since: Some("2026-01-01T00:00:02Z".parse().unwrap()),
            ..LogOptions::default()
        };
        assert_eq!(text(since), "two\nthree words here\n");
        let limited = LogOptions {
            limit_bytes: Some(6),
            ..LogOptions::default()
        };
        assert_eq!(text(limited), "one\ntw");
        let timed = LogOptions {
            timestamps: true,
            ..tail(3)
        };
        assert_eq!(
            text(timed),
            "2026-01-01T00:00:02.000000000Z two\n2026-01-01T00:00:03.000000000Z three words here\n"
        );
    }
}
