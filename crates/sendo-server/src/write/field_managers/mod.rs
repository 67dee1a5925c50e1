//! Which manager owns which field: every write keeps `metadata.managedFields` true.
//!
//! Writes are tracked in the version of the request, before admission and the kind's
//! rules change the object: what these set belongs to no manager.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/fieldmanager.go`:
//!   `FieldManager`
//! - `staging/src/k8s.io/apimachinery/pkg/util/managedfields/scalehandler.go`

mod reset;
mod versions;

use sendo_apimachinery::managed_fields::{
    FieldManager, FieldPath, FieldSet, ScaleManagers, manager_of_user_agent,
};
use sendo_apimachinery::schema::show_as_go;
use sendo_apimachinery::{GroupVersionKind, Meta, MetaMut, Status};
use serde_json::Value;

use crate::catalog::Resource;
use crate::catalog::storage::time_text;
use crate::state::Server;
use crate::state::call::Call;
use crate::state::decode;
use versions::{KindVersions, OnlyVersion};

/// The manager of what the server writes itself.
pub(crate) const SERVER: &str = "kube-apiserver";

/// Tracks a write that is no apply: sets the managers of `new`.
///
/// Both objects are in the version of the request.
pub(crate) fn update(call: &Call<'_>, live: &Value, new: &mut Value) {
    if let Some(schema) = builtin_schema(call, new) {
        // An empty list of managers says something, and Go would not show it.
        let managers = MetaMut::new(new).remove("managedFields");
        show_as_go(schema, new);
        if let Some(managers) = managers {
            MetaMut::new(new).set("managedFields", managers);
        }
    }
    let (manager, now) = (manager(call), time_text(call.now()));
    with_fields(call, |fields| fields.update(live, new, &manager, &now));
}

/// Tracks a creation. Returns the text of the new object's list of managers.
///
/// The object is in the version of the request, and names no managers.
pub(crate) fn create(call: &Call<'_>, new: &mut Value) -> Option<String> {
    if let Some(schema) = builtin_schema(call, new) {
        show_as_go(schema, new);
    }
    let (manager, now) = (manager(call), time_text(call.now()));
    with_fields(call, |fields| fields.creation(new, &manager, &now))
}

/// Tracks a write of objects in their storage version; see [`update`].
pub(crate) fn update_stored(call: &Call<'_>, live: &Value, new: &mut Value) {
    if call.resource.is_stored_version() {
        return update(call, live, new);
    }
    let mut shown = decode::from_storage(call, new).into_owned();
    update(call, &decode::from_storage(call, live), &mut shown);
    take_managers(&shown, new);
}

/// Tracks what the server itself writes, to an object or through one of its subresources.
pub(crate) fn update_own(
    server: &Server,
    resource: &Resource,
    subresource: &str,
    live: &Value,
    new: &mut Value,
    now: &str,
) {
    let types = &resource.types;
    if let Some(schema) = server.types.kind(&types.api_version, &types.kind) {
        show_as_go(schema, new);
    }
    let versions = KindVersions::new(server, resource, None);
    let fields = FieldManager {
        versions: &versions,
        kind: kind_of(resource),
        subresource,
        reset_fields: &|version| reset::fields(resource, subresource, version),
    };
    fields.update(live, new, SERVER, now);
}

/// Applies a configuration; both objects are in the version of the request.
///
/// `live` is null where there is none yet. The result has no defaults.
pub(crate) fn apply(
    call: &Call<'_>,
    live: &Value,
    config: &Value,
    force: bool,
) -> Result<Value, Status> {
    let (manager, now) = (manager(call), time_text(call.now()));
    with_fields(call, |fields| {
        fields
            .apply(live, config, &manager, force, &now)
            .map_err(Status::from)
    })
}

/// What `make` makes, with the fields of managers tracked in their own versions: what a webhook has
/// to convert for that is converted, and the object made anew.
pub(super) async fn with_conversions<T>(
    call: &Call<'_>,
    make: impl Fn() -> Result<T, Status>,
) -> Result<T, Status> {
    loop {
        let made = make();
        let wanted = call.request.conversions().take_wanted();
        if wanted.is_empty() {
            return made;
        }
        for (object, api_version) in wanted {
            let server = call.server;
            let converting = server.convert_object(call.resource, &object, &api_version);
            let outcome = converting.await;
            let mut conversions = call.request.conversions();
            conversions.keep(object, api_version, outcome);
        }
    }
}

fn with_fields<T>(
    call: &Call<'_>,
    track: impl FnOnce(&FieldManager<'_, KindVersions<'_>>) -> T,
) -> T {
    let subresource = call.path.subresource.as_deref().unwrap_or_default();
    let versions = KindVersions::new(call.server, call.resource, Some(call.request));
    track(&FieldManager {
        versions: &versions,
        kind: kind_of(call.resource),
        subresource,
        reset_fields: &|version| reset::fields(call.resource, subresource, version),
    })
}

/// A Scale that is written: what it was, and what becomes of it.
pub(crate) enum ScaleWrite<'a> {
    /// By an apply of this configuration.
    Apply { config: &'a Value, force: bool },
    /// By anything else, with this outcome.
    Update(Value),
}

/// Tracks a write of an object's Scale. Returns the new Scale with its managers.
pub(super) fn scale(
    call: &Call<'_>,
    object: &Value,
    mut scale: Value,
    write: ScaleWrite<'_>,
) -> Result<Value, Status> {
    let list = with_scale(call, object, |managers| managers.to_scale());
    if let Some(list) = list.map_err(Status::unclassified)? {
        MetaMut::new(&mut scale).set("managedFields", list);
    }
    let fields = FieldManager {
        versions: &OnlyVersion {
            types: &call.server.types,
            kind: "Scale",
        },
        kind: GroupVersionKind::new("autoscaling", "v1", "Scale"),
        subresource: "scale",
        reset_fields: &|_| FieldSet::new(),
    };
    let (manager, now) = (manager(call), time_text(call.now()));
    match write {
        ScaleWrite::Apply { config, force } => fields
            .apply(&scale, config, &manager, force, &now)
            .map_err(Status::from),
        ScaleWrite::Update(mut new) => {
            let schema = call.server.types.kind("autoscaling/v1", "Scale");
            show_as_go(schema.expect("a built-in kind"), &mut new);
            fields.update(&scale, &mut new, &manager, &now);
            Ok(new)
        }
    }
}

/// The managers of an object once its Scale is written.
pub(super) fn of_scaled(
    call: &Call<'_>,
    object: &Value,
    scale: &Value,
) -> Result<Option<Value>, Status> {
    let own = Meta::new(scale).get("managedFields");
    let list = with_scale(call, object, |managers| managers.to_object(own));
    list.map_err(Status::unclassified)
}

fn with_scale<T>(call: &Call<'_>, object: &Value, then: impl FnOnce(&ScaleManagers<'_>) -> T) -> T {
    let replicas = |version: &str| replicas_path(call, version);
    then(&ScaleManagers {
        managers: Meta::new(object).get("managedFields"),
        api_version: &call.resource.types.api_version,
        replicas: &replicas,
    })
}

/// Where a version has the number that its Scale shows.
fn replicas_path(call: &Call<'_>, api_version: &str) -> Option<FieldPath> {
    let resource = call.resource;
    if resource.custom.is_none() {
        let own = resource.types.api_version == api_version;
        return own.then(|| FieldPath::of_fields(["spec", "replicas"]));
    }
    let versions = KindVersions::new(call.server, resource, None);
    let custom = versions.custom(api_version)?;
    let path = custom
        .scale
        .as_ref()
        .and_then(|scale| scale.spec_replicas.members());
    Some(path.map_or_else(FieldPath::default, FieldPath::of_fields))
}

/// Tracks the creation of an object of a kind that only a subresource has, and which is not kept.
pub(crate) fn create_below(call: &Call<'_>, object: &mut Value, kind: GroupVersionKind) {
    let fields = FieldManager {
        versions: &OnlyVersion {
            types: &call.server.types,
            kind: &kind.kind,
        },
        kind: kind.clone(),
        subresource: call.path.subresource.as_deref().unwrap_or_default(),
        reset_fields: &|_| FieldSet::new(),
    };
    let managers = fields.creation(object, &manager(call), &time_text(call.now()));
    join(object, managers);
}

/// Gives an object the list of managers that was kept beside it as text.
pub(crate) fn join(object: &mut Value, managers: Option<String>) {
    if let Some(managers) = managers {
        let list: Value = serde_json::from_str(&managers).expect("a list that was written here");
        MetaMut::new(object).set("managedFields", list);
    }
}

/// Copies the managers of one object to another.
pub(crate) fn take_managers(from: &Value, to: &mut Value) {
    let mut meta = MetaMut::new(to);
    match Meta::new(from).get("managedFields") {
        Some(list) => meta.set("managedFields", list.clone()),
        None => {
            meta.remove("managedFields");
        }
    }
}

/// Whether nothing but times of managers differ between two objects' lists.
pub(crate) fn differ_in_time_only(new: &Value, old: &Value) -> bool {
    fn list(object: &Value) -> &[Value] {
        let list = Meta::new(object)
            .get("managedFields")
            .and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default()
    }
    fn timeless(entry: &Value) -> impl Iterator<Item = (&String, &Value)> {
        let members = entry.as_object().into_iter().flatten();
        members.filter(|(name, _)| *name != "time")
    }
    let (new, old) = (list(new), list(old));
    new.len() == old.len()
        && new != old
        && new
            .iter()
            .zip(old)
            .all(|(new, old)| timeless(new).eq(timeless(old)))
}

fn builtin_schema<'a>(
    call: &Call<'a>,
    object: &Value,
) -> Option<sendo_apimachinery::schema::SchemaRef<'a>> {
    if call.resource.custom.is_some() {
        return None;
    }
    let version = object.get("apiVersion").and_then(Value::as_str)?;
    call.server.types.kind(version, &call.resource.types.kind)
}

/// The kind of a resource in the version of the request.
pub(crate) fn kind_of(resource: &Resource) -> GroupVersionKind {
    let facts = &resource.facts;
    GroupVersionKind::new(&facts.group, &facts.version, &facts.kind)
}

/// Who a request writes as: whom it names, or else its user agent.
fn manager(call: &Call<'_>) -> String {
    match call.request.query.text("fieldManager") {
        "" => manager_of_user_agent(call.request.header(http::header::USER_AGENT)),
        own => own.to_owned(),
    }
}
