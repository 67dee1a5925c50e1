//! Finalizers: what must be done before an object may go.

use std::time::Duration;

use serde_json::json;

use super::kind::KindClient;
use super::patch::Patch;
use crate::action::Action;
use crate::object::{Object, ObjectExt};
use crate::transport::Error;

/// What a reconcile is to do after it has seen to its finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an object that is going is not to be reconciled further"]
pub enum Finalizer {
    /// The object stays, and bears the finalizer: go on.
    InPlace,
    /// The object is going, and all that can be done about that now is done:
    /// return this.
    Going(Action),
}

/// How far a clean-up has come. `()` is [`CleanUp::Done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanUp {
    /// Nothing is left: the object may go.
    Done,
    /// Deletion is under way, and an event will reconcile the object when it is done.
    Waiting,
    /// Something is left, and is to be looked at again after this time.
    Again(Duration),
}

impl From<()> for CleanUp {
    fn from((): ()) -> Self {
        CleanUp::Done
    }
}

impl<K: Object> KindClient<K> {
    /// Sees to the finalizer `name` of `object`, in the order that loses nothing:
    ///
    /// - an object that stays gets the finalizer *before* anything is made for
    ///   it that would have to be cleaned up;
    /// - for one that is being deleted, `clean_up` runs, and only when that is
    ///   [`CleanUp::Done`] the finalizer is taken away. It may so run again, after
    ///   a crash too: what is already gone must be fine with it;
    /// - one that is being deleted without this finalizer gets none: the API
    ///   server would refuse it, and it has been cleaned up.
    ///
    /// Others' finalizers stay as they are: a change of theirs in between is a
    /// conflict, and the reconcile is tried again.
    pub async fn finalizer<C, E, F>(
        &self,
        object: &K,
        name: &str,
        clean_up: impl FnOnce() -> F,
    ) -> Result<Finalizer, E>
    where
        C: Into<CleanUp>,
        E: From<Error>,
        F: Future<Output = Result<C, E>>,
    {
        let known = self.finalizers(object);
        let bears = known.iter().any(|known| known == name);
        match (object.is_being_deleted(), bears) {
            (false, true) => return Ok(Finalizer::InPlace),
            (true, false) => return Ok(Finalizer::Going(Action::done())),
            (false, false) => {
                let mut all = known;
                all.push(name.to_owned());
                self.set_finalizers(object, all).await?;
                return Ok(Finalizer::InPlace);
            }
            (true, true) => {}
        }
        match clean_up().await?.into() {
            CleanUp::Done => {}
            CleanUp::Waiting => return Ok(Finalizer::Going(Action::done())),
            CleanUp::Again(after) => return Ok(Finalizer::Going(Action::after(after))),
        }
        // What this program has written meanwhile, such as status, is in the cache.
        let mut rest = self.finalizers(object);
        rest.retain(|known| known != name);
        match self.set_finalizers(object, rest).await {
            // Somebody else took it away, and the object went.
            Err(error) if error.is_not_found() => {}
            outcome => outcome?,
        }
        Ok(Finalizer::Going(Action::done()))
    }

    fn finalizers(&self, object: &K) -> Vec<String> {
        let newest = self.newest_of(object);
        newest.meta().finalizers.clone().unwrap_or_default()
    }

    async fn set_finalizers(&self, object: &K, finalizers: Vec<String>) -> Result<(), Error> {
        let version = self.newest_of(object).meta().resource_version.clone();
        let patch = Patch::Merge(json!({
            "metadata": {"finalizers": finalizers, "resourceVersion": version},
        }));
        self.patch(object, patch).await.map(drop)
    }
}
