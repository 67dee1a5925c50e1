//! Creating an object.

use http::StatusCode;
use sendo_apimachinery::status::Reason;
use sendo_apimachinery::{Meta, MetaMut, Status};
use sendo_store::{Error, Revision, Transaction};
use serde_json::Value;

use crate::answer::Answer;
use crate::call::{Call, backend, time_text};
use crate::crd;
use crate::decode;
use crate::options::{Write, WriteOptions};
use crate::view::{self, Stored};
use crate::write::admission;
use crate::write::allocation;
use crate::write::field_managers;
use crate::write::owner_references;

/// How often another name is drawn when a generated one is taken.
const NAME_ATTEMPTS: usize = 8;
/// The most characters of a prefix that a generated name keeps.
const PREFIX_LIMIT: usize = 58;
const SUFFIX_LENGTH: usize = 5;
/// What only the server says of an object.
const NOT_SENT: [&str; 3] = [
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

/// Creates the object of the body.
pub(crate) async fn create(call: &Call<'_>) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&call.request.query, Write::Create)?;
    for attempt in 1.. {
        // Another name is hardly ever needed: reading the body again then is
        // cheaper than a copy for every creation.
        let object = decode::object(call, &options)?;
        let meta = Meta::of(&object);
        let draws = meta.name().is_empty() && !meta.generate_name().is_empty();
        match insert_as_sent(call, object, &options).await {
            Err(status) if draws && attempt < NAME_ATTEMPTS && is_taken(&status) => {}
            stored => return view::object(call, StatusCode::CREATED, &stored?),
        }
    }
    unreachable!("the attempts are counted");
}

/// Puts a decoded object of the request's version into the store; its writer owns what it sent.
pub(crate) async fn insert_as_sent(
    call: &Call<'_>,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Stored, Status> {
    let mut meta = MetaMut::of(&mut object);
    meta.remove("managedFields");
    // Nobody owns what is not taken.
    for member in NOT_SENT {
        meta.remove(member);
    }
    owner_references::dedup(call, &mut object);
    let managers = field_managers::create(call, &mut object);
    insert(call, object, managers.as_deref(), options).await
}

/// Puts an object of the request's version into the store.
///
/// Its managers are in it, or beside it as text: nothing on the way looks at them.
pub(crate) async fn insert(
    call: &Call<'_>,
    object: Value,
    managers: Option<&str>,
    options: &WriteOptions,
) -> Result<Stored, Status> {
    let mut object = decode::to_storage(call, object);
    decode::place(call, &mut object)?;
    let generated = !Meta::of(&object).generate_name().is_empty();
    // Only what may have to be tried again is worth a copy.
    let repeats = allocation::claims_for(call);
    let next = |object: &mut Value| match repeats {
        true => object.clone(),
        false => std::mem::take(object),
    };
    let stored = loop {
        // What it claims may go to somebody else meanwhile.
        let stored = insert_once(call, next(&mut object), managers, options).await;
        if let Some(stored) = stored.transpose() {
            break stored;
        }
    };
    stored.map_err(|status| match generated && is_taken(&status) {
        true => {
            let name = status.details.map(|details| details.name);
            let name = name.unwrap_or_default();
            Status::no_free_name(&call.resource.group_resource(), &name)
        }
        false => status,
    })
}

fn is_taken(status: &Status) -> bool {
    status.code == 409 && status.reason == Reason::AlreadyExists
}

/// Puts an object into the store; `None` if what it claims was given to another meanwhile.
async fn insert_once(
    call: &Call<'_>,
    mut object: Value,
    managers: Option<&str>,
    options: &WriteOptions,
) -> Result<Option<Stored>, Status> {
    let cx = call.cx();
    let resource = call.resource;
    begin(call, &mut object);
    owner_references::dedup(call, &mut object);
    let name = Meta::of(&object).name().to_owned();
    admission::admit_create(call, &mut object).await?;
    let claims = allocation::on_create(call, &mut object).await?;
    resource.prepare_create(&cx, &mut object);

    let mut errors = resource.validate_create(&cx, &object);
    if resource.is_definition() {
        errors = crd::validate_create(&object, &call.server.types);
    }
    if !errors.is_empty() {
        return Err(Status::invalid(&call.kind_of(&object), &name, &errors));
    }
    for warning in resource.warnings(&object, None) {
        call.request.warn(warning);
    }
    (resource.rules.canonicalize)(&mut object);
    admission::validate_create(call, &object).await?;

    let version = Meta::of(&object).resource_version().parse().unwrap_or(0);
    // Only the storage minds, which a dry run does not get to.
    if version > 0 && !options.dry_run {
        return Err(Status::unclassified(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let key = call.key(&name)?;
    let value = call.server.encode_managed(resource, &mut object, managers);
    let transaction = claims.join(
        Transaction::new()
            .absent(key.clone())
            .put(key.clone(), value.clone()),
    );
    if options.dry_run {
        return match call.stored(&key).await? {
            Some(entry) => Err(taken(call, &name, &entry.value)),
            None => Ok(Some(Stored {
                value,
                at: Revision(version),
            })),
        };
    }
    match call.server.store.commit(transaction).await {
        Ok(at) => Ok(Some(Stored { value, at })),
        Err(Error::Conflict { key: lost, .. }) if lost != key => Ok(None),
        Err(Error::Conflict { found, .. }) => Err(taken(
            call,
            &name,
            found.as_deref().map_or(&[], |entry| &entry.value),
        )),
        Err(other) => Err(backend(other)),
    }
}

/// Sets what every new object has: name, uid, time of creation, and nothing of a deletion.
fn begin(call: &Call<'_>, object: &mut Value) {
    let random = call.server.world.random();
    let mut meta = MetaMut::of(object);
    for member in NOT_SENT {
        meta.remove(member);
    }
    meta.set_uid(&random.uuid());
    meta.set_creation_timestamp(&time_text(call.now()));
    let prefix = meta.view().generate_name().to_owned();
    if meta.view().name().is_empty() && !prefix.is_empty() {
        let kept = prefix
            .char_indices()
            .nth(PREFIX_LIMIT)
            .map_or(prefix.len(), |(at, _)| at);
        meta.set_name(&format!(
            "{}{}",
            &prefix[..kept],
            random.name_suffix(SUFFIX_LENGTH)
        ));
    }
}

/// The refusal of a name that is taken; one whose object is going says so.
fn taken(call: &Call<'_>, name: &str, stored: &[u8]) -> Status {
    let mut status = Status::already_exists(&call.resource.group_resource(), name);
    let object: Value = serde_json::from_slice(stored).unwrap_or_default();
    if Meta::of(&object).deletion_timestamp().is_some() {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}
