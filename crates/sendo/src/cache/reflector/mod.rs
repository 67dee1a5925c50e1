//! Lists a kind and watches it from there on, for ever.
//!
//! [`machine`] decides, [`wire`] decodes; here is only what talks to the API
//! server and waits.

mod backoff;
mod lines;
mod machine;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use sendo_world::{Clock, Random};

use self::lines::Lines;
use self::machine::{Input, Machine, Next, Request};
use self::wire::{Line, Page};
use super::informer::Shared;
use super::state::{Verb, WatchError};
use super::store::Scope;
use crate::error::with_causes;
use crate::transport::{self, Request as HttpRequest, Transport};

pub(super) use self::machine::{Update, number};
pub(super) use self::wire::Undecoded;

/// After how many seconds the API server is to end a watch: a random number of
/// these, so that the watches of a program do not all end together.
const WATCH_SECONDS: std::ops::Range<u64> = 300..600;

/// How much longer a watch may live before it counts as dead.
const GRACE: Duration = Duration::from_secs(30);

/// How long a watch may be silent. An API server sends a bookmark about once a
/// minute (apiserver, storage/cacher/cacher.go: `defaultBookmarkFrequency`), so
/// two of them are missing: the connection may be dead without anybody having said so.
const SILENCE: Duration = Duration::from_secs(130);

/// How long a list that comes as a stream may be silent.
const LIST_SILENCE: Duration = Duration::from_secs(10);

/// How long a list that comes as a stream may go on with what can as well be
/// changes that happened after it. A server that streams lists says within two
/// seconds that this was all.
const LIST_WITHOUT_END: Duration = Duration::from_secs(30);

/// The media types by which metadata alone is requested; a server without them sends the whole
/// object.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Keeps one scope of an informer up to date.
pub(super) struct Reflector {
    pub(super) informer: Arc<Shared>,
    pub(super) scope: Scope,
    pub(super) transport: Transport,
    pub(super) clock: Clock,
    pub(super) random: Random,
    /// Whether to request lists as streams.
    pub(super) streaming: bool,
}

impl Reflector {
    /// Never returns. What it has taken in stays if it is dropped.
    pub(super) async fn run(self) {
        let informer = self.informer.clone();
        let hold = Box::new(move |object| informer.hold(object));
        let mut machine = Machine::new(self.random.child("backoff"), self.streaming, hold);
        loop {
            let wait = match machine.request() {
                Request::List { page, limit } => self.list(&mut machine, page, limit).await,
                Request::Stream => self.watch(&mut machine, None).await,
                Request::Watch { from } => self.watch(&mut machine, Some(from)).await,
            };
            if !wait.is_zero() {
                self.clock.sleep(wait).await;
            }
        }
    }

    async fn list(
        &self,
        machine: &mut Machine,
        page: Option<String>,
        limit: Option<u32>,
    ) -> Duration {
        let mut request = self.request(Verb::List);
        if let Some(limit) = limit {
            request = request.query("limit", &limit.to_string());
        }
        if let Some(page) = page {
            request = request.query("continue", &page);
        }
        // Boxed, as below: a watch lasts, and would keep the memory that its request takes.
        match Box::pin(self.fetch_page(&request)).await {
            Ok(page) => self.handle(machine, Input::Page(page)).wait(),
            Err(error) => {
                let least = error.retry_after().unwrap_or_default();
                let input = Input::failed(error, Duration::ZERO);
                self.handle(machine, input).wait().max(least)
            }
        }
    }

    async fn fetch_page(&self, request: &HttpRequest) -> Result<Page, transport::Error> {
        let bytes = self.transport.send(request).await?;
        let page = Page::decode(&bytes, self.informer.reader());
        page.map_err(|cause| request.codec_error(&cause))
    }

    /// A watch from a version on, or of everything.
    async fn watch(&self, machine: &mut Machine, from: Option<String>) -> Duration {
        let seconds = self.random.below(WATCH_SECONDS);
        let request = self
            .request(Verb::Watch)
            .query("watch", "true")
            .query("allowWatchBookmarks", "true");
        let request = match &from {
            Some(version) => request.query("resourceVersion", version),
            // The newest state there is, not the oldest that some cache has.
            None => request
                .query("sendInitialEvents", "true")
                .query("resourceVersionMatch", "NotOlderThan"),
        };
        let request = request.query("timeoutSeconds", &seconds.to_string());
        let opened = self.clock.now();
        let dead = opened + Duration::from_secs(seconds) + GRACE;
        let mut lines = match Box::pin(self.transport.open(&request)).await {
            Ok(body) => Lines::new(body),
            Err(error) => {
                // An API server that knows no streamed lists refuses the parameters.
                if from.is_none() && matches!(error.code(), 400 | 422) {
                    return self.handle(machine, Input::CannotStream).wait();
                }
                let least = error.retry_after().unwrap_or_default();
                let input = Input::failed(error, Duration::ZERO);
                return self.handle(machine, input).wait().max(least);
            }
        };
        let mut input = Input::Opened;
        // How much of a list has come, and when that was more than before.
        let (mut listed, mut grew) = (None, opened);
        loop {
            match self.handle(machine, input) {
                Next::Read => {}
                Next::Request { after } => return after,
            }
            let now = self.clock.now();
            let news = machine.listed();
            if news != listed {
                (listed, grew) = (news, now);
            }
            let limit = match listed {
                Some(_) => (now + LIST_SILENCE).min(grew + LIST_WITHOUT_END),
                None => (now + SILENCE).min(dead),
            };
            let read = self.clock.timeout(limit.since(now), lines.next()).await;
            let lived = self.clock.now() - opened;
            input = match read {
                Some(Ok(Some(line))) => {
                    let line = Line::decode(&line, self.informer.reader());
                    Input::Line(line.unwrap_or_else(Line::broken))
                }
                Some(Ok(None)) => Input::Ended { lived },
                Some(Err(cause)) => {
                    let error = format!("the watch was cut off: {}", with_causes(&cause));
                    Input::failed(WatchError::Other(error), lived)
                }
                None if listed.is_some() => Input::CannotStream,
                None if self.clock.now() < dead => Input::Silent,
                None => {
                    let error =
                        format!("the watch did not end when it should have, after {lived:?}");
                    Input::failed(WatchError::Other(error), lived)
                }
            };
        }
    }

    fn handle(&self, machine: &mut Machine, input: Input) -> Next {
        let reaction = machine.on(input);
        if let Some(update) = reaction.update {
            let now = self.clock.wall();
            self.informer.apply(&self.scope, update, now);
        }
        reaction.next
    }

    fn request(&self, verb: Verb) -> HttpRequest {
        let path = self.informer.kind().path(self.scope.as_deref());
        let request =
            HttpRequest::get(path).accept(match (self.informer.reader().is_metadata(), verb) {
                (false, _) => "application/json",
                (true, Verb::List) => METADATA_LIST,
                (true, Verb::Watch) => METADATA,
            });
        self.informer.selection().restrict(request)
    }
}

#[cfg(test)]
mod tests;
