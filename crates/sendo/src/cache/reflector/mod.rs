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

use kube::client::Body;
use sendo_world::{Clock, Moment, Random};

use self::lines::Lines;
use self::machine::{Input, Machine, Next, Request};
use self::wire::{Line, Page};
use super::informer::Shared;
use super::state::{Verb, WatchError};
use super::store::Scope;
use crate::client;
use crate::client::request::{Request as HttpRequest, Transport};
use crate::object::Object;

pub(super) use self::machine::Update;

/// After how many seconds the API server is to end a watch: a random number of
/// these, so that the watches of a program do not all end together.
const WATCH_SECONDS: std::ops::Range<u64> = 300..600;

/// How much longer a watch may live before it counts as dead.
const GRACE: Duration = Duration::from_secs(30);

/// How metadata alone is asked for; where that is not served, the whole is taken.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Keeps one scope of an informer up to date.
pub(super) struct Reflector<K> {
    pub(super) informer: Arc<Shared<K>>,
    pub(super) scope: Scope,
    pub(super) transport: Transport,
    pub(super) clock: Clock,
    pub(super) random: Random,
}

impl<K: Object> Reflector<K> {
    /// Never returns. What it has taken in stays if it is dropped.
    pub(super) async fn run(self) {
        let mut machine = Machine::new(self.random.child("backoff"));
        loop {
            let wait = match machine.request() {
                Request::List { page, limit } => self.list(&mut machine, page, limit).await,
                Request::Watch { from } => self.watch(&mut machine, from).await,
            };
            if !wait.is_zero() {
                self.clock.sleep(wait).await;
            }
        }
    }

    async fn list(
        &self,
        machine: &mut Machine<K>,
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
        let input = match self.fetch_page(&request).await {
            Ok(page) => Input::Page(page),
            Err(error) => Input::failed(error, Duration::ZERO),
        };
        self.take_in(machine, input).wait()
    }

    async fn fetch_page(&self, request: &HttpRequest) -> Result<Page<K>, client::Error> {
        let bytes = self.transport.send(request).await?;
        let page = Page::decode(&bytes, |object| self.informer.trim(object));
        let mut page = page.map_err(|cause| request.codec_error(&cause))?;
        // What has not changed is kept once: a list again then costs little memory.
        for object in &mut page.objects {
            self.informer.share(object);
        }
        Ok(page)
    }

    async fn watch(&self, machine: &mut Machine<K>, from: String) -> Duration {
        let seconds = self.random.below(WATCH_SECONDS);
        let request = self
            .request(Verb::Watch)
            .query("watch", "true")
            .query("allowWatchBookmarks", "true")
            .query("resourceVersion", &from)
            .query("timeoutSeconds", &seconds.to_string());
        let opened = self.clock.now();
        let dead = opened + Duration::from_secs(seconds) + GRACE;
        let mut lines = match self.transport.open(&request).await {
            Ok(body) => Lines::new(body),
            Err(error) => {
                let input = Input::failed(error, Duration::ZERO);
                return self.take_in(machine, input).wait();
            }
        };
        let mut input = Input::Opened;
        loop {
            match self.take_in(machine, input) {
                Next::Read => input = self.read(&mut lines, opened, dead).await,
                Next::Request { after } => return after,
            }
        }
    }

    async fn read(&self, lines: &mut Lines<Body>, opened: Moment, dead: Moment) -> Input<K> {
        let left = dead.since(self.clock.now());
        let read = self.clock.timeout(left, lines.next()).await;
        let lived = self.clock.now() - opened;
        let error = match read {
            Some(Ok(Some(line))) => {
                let line = Line::decode(&line, |object| self.informer.trim(object));
                return Input::Line(line.unwrap_or_else(Line::broken));
            }
            Some(Ok(None)) => return Input::Ended { lived },
            Some(Err(cause)) => format!("the watch was cut off: {cause}"),
            None => format!("the watch did not end when it should have, after {lived:?}"),
        };
        Input::failed(WatchError::Other(error), lived)
    }

    fn take_in(&self, machine: &mut Machine<K>, input: Input<K>) -> Next {
        let reaction = machine.on(input);
        if let Some(update) = reaction.update {
            let now = self.clock.wall();
            self.informer.take_in(&self.scope, update, now);
        }
        reaction.next
    }

    fn request(&self, verb: Verb) -> HttpRequest {
        HttpRequest::get(self.informer.kind().path(self.scope.as_deref()))
            .accept(match (K::metadata_api(), verb) {
                (false, _) => "application/json",
                (true, Verb::List) => METADATA_LIST,
                (true, Verb::Watch) => METADATA,
            })
            .selecting(self.informer.selection())
    }
}

#[cfg(test)]
mod tests;
