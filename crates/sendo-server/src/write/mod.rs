//! Changing what is stored: every write takes the steps of [`save`] or [`remove`],
//! in the order in which they stand there.
//!
//! The order is that of Kubernetes. Its handlers do steps 1 to 3, its generic
//! registry the rest:
//!
//! 1. **Read** what is stored. A creation has nothing to read.
//! 2. **Make** the new object of it: from the body, by a patch, by an apply. That
//!    is what the verbs differ in. Fields are tracked under their manager here, so
//!    that what later steps set belongs to nobody.
//! 3. **Mutating admission** ([`admission::mutate`]). It sees what the client
//!    wants, with defaults, before the server has had its say: a name that is to be
//!    generated is not there yet.
//! 4. **Escalation**: whoever writes a role hands out rights, and must hold them.
//!    It comes after admission, which may change the rights, and before all that
//!    could tell a client more about the object than they may know.
//! 5. **System metadata** of a new object (uid, time, generated name); the
//!    **resourceVersion** of a changed one. A conflict is found before the object is
//!    validated: against an outdated one every error would be a false one.
//! 6. **Allocation** of addresses and ports, which validation wants to see.
//! 7. **The kind's rules**, by [`Strategy`]: restore what this endpoint does not
//!    change, validate, warn, canonicalize.
//! 8. **Creation by PUT or apply** needs the right to create, which the
//!    authorisation of the request did not ask for.
//! 9. **Validating admission** ([`admission::validate`]): it sees what will be
//!    stored. What it claims ([`Claims`]) is written in the same transaction.
//! 10. **Commit**: one transaction, guarded by what step 1 read. If somebody else
//!     was faster, all begins again, as in Kubernetes' `GuaranteedUpdate`. If only a
//!     quota has changed, only the quotas are charged again.
//!
//! A deletion reads, checks its preconditions, asks admission, which sees the stored
//! object, decides what becomes of the object, and commits.
//!
//! Subresources that write the object itself take the same way with another
//! [`Strategy`]. What is created below an object and kept nowhere (a binding, an
//! eviction, a token) passes admission as a creation; the change that follows from
//! it is the server's own ([`Writer::Server`]).
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go`: `createHandler`, `withAuthorization`
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/update.go`: `UpdateResource`
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go`: `patchResource`
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go`: `DeleteResource`
//! - `staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go`: `Create`, `Update`, `Delete`
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/create.go`: `BeforeCreate`
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/update.go`: `BeforeUpdate`
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go`: `BeforeDelete`

pub(crate) mod admission;
pub(crate) mod allocation;
pub(crate) mod apply;
pub(crate) mod binding;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod delete_collection;
pub(crate) mod eviction;
pub(crate) mod field_managers;
mod metadata;
mod owner_references;
pub(crate) mod patch;
pub(crate) mod preconditions;
mod privilege_escalation;
pub(crate) mod scale;
mod strategy;
pub(crate) mod token_request;
pub(crate) mod update;
mod validate;

use std::sync::Arc;

use bytes::Bytes;
use sendo_apimachinery::status::Reason;
use sendo_apimachinery::{Meta, Status};
use sendo_store::{Entry, Error, Transaction};
use serde_json::Value;

use crate::catalog::storage::backend;
use crate::catalog::stored_form;
use crate::read::view::Stored;
use crate::request::delete_options::DeleteOptions;
use crate::request::options::WriteOptions;
use crate::state::admission::Claims;
use crate::state::call::Call;
use crate::state::create_permission;
use admission::{Attributes, webhooks};
use delete::Outcome;
use owner_references::When;

pub(crate) use strategy::Strategy;

/// How often another name is drawn when a generated one is taken.
///
/// `maxNameGenerationCreateAttempts` in Kubernetes' `store.go`.
const NAME_ATTEMPTS: usize = 8;

/// A write, beside the object it brings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) strategy: Strategy,
    pub(crate) presence: Presence,
    pub(crate) writer: Writer,
    pub(crate) options: &'a WriteOptions,
}

/// Whether a write finds an object under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It creates one, and is refused if there is one.
    Absent,
    /// It changes one, and is refused if there is none.
    Present,
    /// It changes the one there is, or creates it.
    Either,
}

/// Who makes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// The client that sent the request: admission is asked.
    Client,
    /// The server itself, as a consequence of something else that was admitted.
    Server,
}

/// What a write is to store.
#[derive(Debug)]
pub(crate) struct New {
    /// The object in its storage version, or what [`Strategy::show`] makes of it.
    pub(crate) object: Value,
    /// The text of its list of field managers, if that is not in the object: no
    /// rule looks at them, and to join them late is less work.
    pub(crate) managers: Option<String>,
}

impl From<Value> for New {
    fn from(object: Value) -> Self {
        New {
            object,
            managers: None,
        }
    }
}

/// What came of a write.
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) stored: Stored,
    pub(crate) created: bool,
}

/// Creates or changes the object that the path names.
///
/// `make` makes the new object of the stored one (`None`: there is none), which it
/// is given in its storage version. It is called again with what somebody else
/// left, if they were faster.
pub(crate) async fn save(
    call: &Call<'_>,
    change: Change<'_>,
    make: impl Fn(Option<&Value>) -> Result<New, Status>,
) -> Result<Saved, Status> {
    loop {
        // 1. What is stored.
        let current = Current::read(call, change.presence).await?;
        let old = current.as_ref().map(|current| &current.object);

        // 2. What is wanted.
        let New {
            object: mut new,
            mut managers,
        } = field_managers::with_conversions(call, || make(old)).await?;
        if change.writer == Writer::Client && webhooks::are_configured(call).await? {
            // Webhooks see the whole object.
            field_managers::join(&mut new, managers.take());
        }

        // 3. Mutating admission.
        let shown = old.map(|old| change.strategy.show(call, old));
        let attributes = Attributes {
            draws_name: old.is_none() && metadata::draws_name(&new),
            ..Attributes::of_change(call, change.options, shown.as_deref())
        };
        if change.writer == Writer::Client {
            admission::mutate(&attributes, &mut new).await?;
            change.strategy.check_place(call, &mut new)?;
        }
        owner_references::dedup(call, &mut new, When::AfterMutation);
        if let Some(old) = old {
            new = change.strategy.merge(call, new, old)?;
            // What is stored has the form in which Go would show it, and so must
            // what is compared with it.
            call.server.show(call.resource, &mut new);
        }

        // 4 to 10.
        let saving = Saving {
            call,
            change,
            attributes,
            current: current.as_ref(),
            managers: managers.as_deref(),
        };
        if let Some(stored) = saving.store(new).await? {
            let created = current.is_none();
            return Ok(Saved { stored, created });
        }
    }
}

/// What is stored under the name of a write.
struct Current {
    entry: Arc<Entry>,
    /// As [`Call::read`] gives it.
    object: Value,
}

impl Current {
    async fn read(call: &Call<'_>, presence: Presence) -> Result<Option<Self>, Status> {
        if presence == Presence::Absent {
            return Ok(None);
        }
        let stored = call.stored(&call.key(call.name())?).await?;
        match (stored, presence) {
            (Some(entry), _) => Ok(Some(Current {
                object: call.read(&entry).await?,
                entry,
            })),
            (None, Presence::Present) => Err(call.not_found(call.name())),
            (None, _) => Ok(None),
        }
    }
}

/// A write whose object has passed mutating admission.
struct Saving<'a> {
    call: &'a Call<'a>,
    change: Change<'a>,
    attributes: Attributes<'a>,
    current: Option<&'a Current>,
    managers: Option<&'a str>,
}

/// What came of one attempt to store an object.
enum Attempt {
    Stored(Stored),
    /// Something that the write claims beside its object was given to another.
    ClaimLost,
    /// The object is not as it was read.
    Overtaken,
}

impl Saving<'_> {
    /// Stores an object; `None` if somebody else was faster.
    ///
    /// A creation is tried again if the name that was generated is taken, or an
    /// address (`Create` in Kubernetes' `store.go`).
    async fn store(&self, mut new: Value) -> Result<Option<Stored>, Status> {
        let is_new = self.current.is_none();
        let draws = is_new && metadata::draws_name(&new);
        // Only what may have to be tried again is worth a copy.
        let repeats = draws || is_new && allocation::claims_for(self.call);
        let mut names = 1;
        loop {
            let candidate = match repeats {
                true => new.clone(),
                false => std::mem::take(&mut new),
            };
            match self.attempt(candidate).await {
                Ok(Attempt::Stored(stored)) => return Ok(Some(stored)),
                Ok(Attempt::ClaimLost) if repeats => {}
                Ok(Attempt::ClaimLost | Attempt::Overtaken) => return Ok(None),
                Err(status) if draws && names < NAME_ATTEMPTS && is_taken(&status) => names += 1,
                Err(status) => return Err(status),
            }
        }
    }

    /// Steps 4 to 10.
    async fn attempt(&self, mut new: Value) -> Result<Attempt, Status> {
        let Saving { call, change, .. } = *self;
        let old = self.current.map(|current| &current.object);

        // 4. Nobody hands out more than they hold
        //    (`pkg/registry/rbac/*/policybased/storage.go`).
        privilege_escalation::confirm(call, &new, old).await?;

        // 5. System metadata, resourceVersion.
        match self.current {
            None => metadata::fill(call, &mut new),
            Some(current) => {
                metadata::check_version(call, &mut new, current.entry.modified)?;
            }
        }

        // 6. Addresses and ports (`BeginCreate`, `BeginUpdate`).
        let mut claims = match change.strategy.allocates() {
            true => allocation::claim(call, &mut new, old).await?,
            false => Claims::default(),
        };

        // 7. The kind's rules (`rest.BeforeCreate`, `rest.BeforeUpdate`).
        match old {
            None => validate::before_create(call, &mut new)?,
            Some(old) => validate::before_update(call, change.strategy, &mut new, old)?,
        }

        // 8. The right to create (`withAuthorization` in `create.go`).
        if old.is_none() && change.presence == Presence::Either {
            create_permission::demand_create(call).await?;
        }

        // 9. Validating admission.
        if change.writer == Writer::Client {
            let shown = change.strategy.show(call, &new);
            admission::validate(&self.attributes, &shown, &mut claims).await?;
        }

        // 10. Commit.
        match self.current {
            None => self.insert(new, claims).await,
            Some(current) => self.replace(new, current, claims).await,
        }
    }

    /// Commits a new object.
    async fn insert(&self, mut new: Value, mut claims: Claims) -> Result<Attempt, Status> {
        let Saving { call, change, .. } = *self;
        let sent = metadata::sent_version(&new, change.options.dry_run)?;
        let key = call.key(Meta::new(&new).name())?;
        let server = call.server;
        let value = server
            .encode_for_storage(call.resource, &mut new, self.managers)
            .await?;
        if change.options.dry_run {
            return match call.stored(&key).await? {
                Some(entry) => self.lose_name(&new, &entry.value),
                None => Ok(Attempt::Stored(Stored { value, at: sent })),
            };
        }
        loop {
            let put = Transaction::new().absent(key.clone());
            let put = put.put(key.clone(), value.clone());
            match server.store.commit(claims.clone().join(put)).await {
                Ok(at) => return Ok(Attempt::Stored(Stored { value, at })),
                Err(Error::Conflict { key: lost, .. }) if claims.replaces(&lost) => {
                    self.charge_again(&new, &mut claims).await?;
                }
                Err(Error::Conflict { key: lost, .. }) if lost != key => {
                    return Ok(Attempt::ClaimLost);
                }
                Err(Error::Conflict { found, .. }) => {
                    let found = found.as_deref().map_or(&[][..], |entry| &entry.value);
                    return self.lose_name(&new, found);
                }
                Err(other) => return Err(backend(other)),
            }
        }
    }

    /// Charges quotas again, one of which has changed since it was read.
    async fn charge_again(&self, new: &Value, claims: &mut Claims) -> Result<(), Status> {
        let shown = self.change.strategy.show(self.call, new);
        admission::charge_quotas(&self.attributes, &shown, claims).await
    }

    /// What is to be done where the name of a new object is taken: only a POST is refused.
    fn lose_name(&self, new: &Value, stored: &[u8]) -> Result<Attempt, Status> {
        match self.change.presence {
            Presence::Absent => Err(metadata::taken(self.call, new, stored)),
            Presence::Present | Presence::Either => Ok(Attempt::Overtaken),
        }
    }

    /// Commits a changed object, or takes it away if its last finalizer is gone.
    async fn replace(
        &self,
        mut new: Value,
        current: &Current,
        mut claims: Claims,
    ) -> Result<Attempt, Status> {
        let (call, entry, old) = (self.call, &current.entry, &current.object);
        let value = encode_changed(call, &mut new, old, entry).await?;
        // What the last finalizer lets go is never stored in its last form.
        let goes = delete::is_finished(&new, old);
        if value == entry.value || self.change.options.dry_run {
            let at = entry.modified;
            return Ok(Attempt::Stored(Stored { value, at }));
        }
        loop {
            let guarded = Transaction::new().unchanged(entry.key.clone(), entry.modified);
            let transaction = match goes {
                true => allocation::on_delete(call, old).join(guarded.delete(entry.key.clone())),
                false => {
                    let put = guarded.put(entry.key.clone(), value.clone());
                    claims.clone().join(put)
                }
            };
            match call.server.store.commit(transaction).await {
                Ok(at) => {
                    let at = if goes { entry.modified } else { at };
                    return Ok(Attempt::Stored(Stored { value, at }));
                }
                Err(Error::Conflict { key: lost, .. }) if !goes && claims.replaces(&lost) => {
                    self.charge_again(&new, &mut claims).await?;
                }
                Err(Error::Conflict { .. }) => return Ok(Attempt::Overtaken),
                Err(other) => return Err(backend(other)),
            }
        }
    }
}

fn is_taken(status: &Status) -> bool {
    status.code == 409 && status.reason == Reason::AlreadyExists
}

/// The bytes to store for a changed object.
///
/// A write that changes nothing but when its manager last wrote changes nothing
/// (`IgnoreManagedFieldsTimestampsTransformer`).
async fn encode_changed(
    call: &Call<'_>,
    new: &mut Value,
    old: &Value,
    entry: &Entry,
) -> Result<Bytes, Status> {
    let value = call.encode(new).await?;
    let is_same = stored_form::differ_in_managers_only(&value, &entry.value)
        && field_managers::differ_in_time_only(new, old);
    Ok(if is_same { entry.value.clone() } else { value })
}

/// Deletes an object of this resource by name.
pub(crate) async fn remove(
    call: &Call<'_>,
    name: &str,
    options: &DeleteOptions,
    writer: Writer,
) -> Result<Outcome, Status> {
    let key = call.key(name)?;
    loop {
        // 1. What is stored.
        let stored = call.stored(&key).await?;
        let entry = stored.ok_or_else(|| call.not_found(name))?;
        let object = call.read(&entry).await?;

        // 2. Is it the one that is meant (`rest.BeforeDelete`)?
        preconditions::check(call, name, &object, options)?;

        // 3. Admission, which sees the stored object. A deletion that is under way
        //    and stays as it is needs none.
        let mut claims = Claims::default();
        if writer == Writer::Client && !delete::is_pending(call, &object, options) {
            let in_force = delete::effective(call, &object, options);
            let attributes = Attributes::of_deletion(call, &object, &in_force);
            let mut none = Value::Null;
            admission::mutate(&attributes, &mut none).await?;
            admission::validate(&attributes, &none, &mut claims).await?;
        }

        // 4. What becomes of it: marked, shortened, left to its finalizers, gone.
        let step = delete::step(call, object, options);

        // 5. Commit.
        if let Some(outcome) = delete::commit(call, &entry, step, claims, options).await? {
            return Ok(outcome);
        }
    }
}
