//! Read, change, write, and again if somebody else was faster.

use std::sync::Arc;
use std::time::Duration;

use kube::core::Status;
use kube::core::response::StatusDetails;
use sendo_world::World;

use super::kind::KindClient;
use super::patch::{Patch, merge_patch};
use super::target::Target;
use crate::object::{Object, ObjectExt, ObjectKey};
use crate::transport::{Error, to_json};

/// How often a change is tried before a conflict is given back.
const ATTEMPTS: u32 = 5;

/// How long to wait before the second attempt; each one more waits twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// What came of a change that may have been none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationResult<K> {
    /// The object was not there and was created.
    Created(K),
    /// The object was changed.
    Updated(K),
    /// The object was as it should be; nothing was written.
    Unchanged(K),
}

impl<K> OperationResult<K> {
    /// The object as it is now.
    pub fn into_object(self) -> K {
        match self {
            OperationResult::Created(object)
            | OperationResult::Updated(object)
            | OperationResult::Unchanged(object) => object,
        }
    }
}

/// What a closure that changes an object answers: nothing, or a `Result` if it
/// may refuse what it finds. Nothing is written then, and its error is given back.
pub trait Change {
    /// The error of all of it: the closure's own, which a failed request turns into.
    type Error: From<Error>;

    /// Whether it refuses.
    fn check(self) -> Result<(), Self::Error>;
}

impl Change for () {
    type Error = Error;

    fn check(self) -> Result<(), Error> {
        Ok(())
    }
}

impl<E: From<Error>> Change for Result<(), E> {
    type Error = E;

    fn check(self) -> Result<(), E> {
        self
    }
}

/// What of a changed object is sent.
#[derive(Clone, Copy)]
enum Sent {
    Whole,
    Difference,
}

impl<K: Object> KindClient<K> {
    /// Changes an object: reads its newest state, lets `change` change it, and
    /// writes it if it is different then. If somebody else has changed it
    /// meanwhile, all of that is done again, up to five times. `change` may
    /// refuse; see [`Change`].
    ///
    /// Fails with [`Error::is_not_found`] if the object is not there or, given
    /// the object rather than its key, if another has taken its name.
    pub async fn modify<C: Change>(
        &self,
        target: &impl Target<K>,
        mut change: impl FnMut(&mut K) -> C,
    ) -> Result<K, C::Error> {
        let (key, uid) = (target.target_key(), target.target_uid());
        let is_meant = |object: &Arc<K>| uid.as_ref().is_none_or(|uid| object.uid() == *uid);
        let read = async |attempt| {
            let found = self.read(&key, attempt).await?.filter(is_meant);
            found.ok_or_else(|| self.not_found(&key))
        };
        let mut attempt = 1;
        loop {
            let known = read(attempt).await?;
            let changed = changed(&*known, &mut change)?;
            match self.write_change(&known, changed).await {
                Ok(outcome) => return Ok(outcome.into_object()),
                Err(error) => wait_after(self.client().world(), error, &mut attempt).await?,
            }
        }
    }

    /// Makes an object as `change` makes it: creates it from `template` if it is
    /// not there, else writes what `change` makes of its newest state, if that
    /// is different. Conflicts are tried again as by [`KindClient::modify`], and
    /// `change` may refuse: an object that belongs to somebody else, for example.
    pub async fn create_or_update<C: Change>(
        &self,
        template: K,
        change: impl FnMut(&mut K) -> C,
    ) -> Result<OperationResult<K>, C::Error> {
        self.create_or(template, change, Sent::Whole).await
    }

    /// As [`KindClient::create_or_update`], but sends only what `change` changes,
    /// as a merge patch. What others change meanwhile stays, so there are no
    /// conflicts; lists are replaced whole. Status is left alone: it has
    /// [`KindClient::status`].
    pub async fn create_or_patch<C: Change>(
        &self,
        template: K,
        change: impl FnMut(&mut K) -> C,
    ) -> Result<OperationResult<K>, C::Error> {
        self.create_or(template, change, Sent::Difference).await
    }

    /// Creates what is not there, changes what is.
    async fn create_or<C: Change>(
        &self,
        template: K,
        mut change: impl FnMut(&mut K) -> C,
        sent: Sent,
    ) -> Result<OperationResult<K>, C::Error> {
        let key = ObjectKey::from_object(&template);
        let mut attempt = 1;
        loop {
            let written = match self.read(&key, attempt).await? {
                Some(known) => {
                    let changed = changed(&*known, &mut change)?;
                    match sent {
                        Sent::Whole => self.write_change(&known, changed).await,
                        Sent::Difference => self.patch_change(&known, changed).await,
                    }
                }
                None => {
                    let object = changed(&template, &mut change)?;
                    self.create(&object).await.map(OperationResult::Created)
                }
            };
            match written {
                Ok(outcome) => return Ok(outcome),
                Err(error) => wait_after(self.client().world(), error, &mut attempt).await?,
            }
        }
    }

    async fn patch_change(&self, known: &Arc<K>, changed: K) -> Result<OperationResult<K>, Error> {
        let whole = |object: &K| {
            let mut json = to_json(object)?;
            if let Some(members) = json.as_object_mut() {
                members.remove("status");
            }
            Ok::<_, Error>(json)
        };
        match merge_patch(&whole(known)?, &whole(&changed)?) {
            None => Ok(OperationResult::Unchanged(changed)),
            Some(difference) => {
                let written = self.patch(known, Patch::Merge(difference)).await?;
                Ok(OperationResult::Updated(written))
            }
        }
    }

    /// The cache may be what the conflict came from: it is asked the first time only.
    async fn read(&self, key: &ObjectKey, attempt: u32) -> Result<Option<Arc<K>>, Error> {
        match attempt {
            1 => self.newest(key).await,
            _ => Ok(self.live_get(key).await?.map(Arc::new)),
        }
    }

    async fn write_change(&self, known: &K, changed: K) -> Result<OperationResult<K>, Error> {
        if to_json(&changed)? == to_json(known)? {
            return Ok(OperationResult::Unchanged(changed));
        }
        Ok(OperationResult::Updated(self.update(&changed).await?))
    }

    fn not_found(&self, key: &ObjectKey) -> Error {
        let kind = self.kind();
        let resource = match kind.group.as_str() {
            "" => kind.plural.clone(),
            group => format!("{}.{group}", kind.plural),
        };
        let message = format!("{resource} \"{}\" not found", key.name());
        let mut status = Status::failure(&message, "NotFound").with_code(404);
        status.details = Some(StatusDetails {
            name: key.name().to_owned(),
            group: kind.group.clone(),
            kind: kind.plural.clone(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        });
        Error::Api(Box::new(status))
    }
}

/// What `change` makes of an object, unless it refuses.
fn changed<K: Clone, C: Change>(
    object: &K,
    change: &mut impl FnMut(&mut K) -> C,
) -> Result<K, C::Error> {
    let mut changed = object.clone();
    change(&mut changed).check()?;
    Ok(changed)
}

/// Waits before the next attempt, or gives the error back if there is none.
pub(super) async fn wait_after(
    world: &World,
    error: Error,
    attempt: &mut u32,
) -> Result<(), Error> {
    let was_overtaken = error.is_conflict() || error.is_already_exists();
    if !was_overtaken || *attempt == ATTEMPTS {
        return Err(error);
    }
    let wait = FIRST_WAIT * (1 << (*attempt - 1));
    let chance = 1.0 + world.random().fraction();
    world.clock().sleep(wait.mul_f64(chance)).await;
    *attempt += 1;
    Ok(())
}
