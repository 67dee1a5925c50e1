//! Stores the objects of a resource anew, in the version that is stored now.
//!
//! One StorageVersionMigration after the other runs for a resource. Each object that was last
//! written before the migration began is written again without a change, by an empty apply. When
//! all are, the versions that a CustomResourceDefinition stored before leave its
//! `status.storedVersions`, unless it was changed meanwhile.
//!
//! Kubernetes does this in three controllers, and reads the objects from the cache of the garbage
//! collector; here it is one, which lists them.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/storageversionmigrator/migrationrunner.go`
//! - `pkg/controller/storageversionmigrator/resourceversion.go`
//! - `pkg/controller/storageversionmigrator/storageversionmigrator.go`

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use sendo::client::Patch;
use sendo::discovery::ServedKind;
use sendo::handler::map_object;
use sendo::source::{AnyMeta, kind};
use sendo::{Action, Context, Controller, ObjectExt, ObjectKey, Reader, Result, Selection, client};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The name of the controller, and its field manager.
pub const NAME: &str = "storage-version-migrator-controller";

/// The field manager of what it writes to definitions.
const RUNNER: &str = "migration-runner-controller";

const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";

/// How long a resource may be missing that was only just defined.
const PATIENCE: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_secs(5);

/// What a migration needs to be able to do with a resource.
const VERBS: [&str; 2] = ["list", "patch"];

/// What is to be migrated. The type is declared here because the types of older releases of
/// Kubernetes do not have it.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(
    group = "storagemigration.k8s.io",
    version = "v1beta1",
    kind = "StorageVersionMigration",
    status = "MigrationStatus",
    schema = "disabled"
)]
pub struct MigrationSpec {
    /// The resource whose objects are stored anew.
    pub resource: GroupResource,
}

/// A resource in no particular version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupResource {
    /// The group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// The name in paths.
    pub resource: String,
}

/// How far a migration is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrationStatus {
    /// Whether it runs, has succeeded or has failed.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Objects that were written later are stored in the version of now already.
    #[serde(default)]
    pub resource_version: Option<String>,
}

impl StorageVersionMigration {
    fn is(&self, condition: &str) -> bool {
        let status = self.status.iter();
        let mut conditions = status.flat_map(|status| &status.conditions);
        conditions.any(|own| own.type_ == condition && own.status == "True")
    }

    fn is_over(&self) -> bool {
        self.is(SUCCEEDED) || self.is(FAILED)
    }

    /// By age, then by name.
    fn order(&self) -> impl Ord + use<> {
        let created = self.metadata.creation_timestamp.as_ref();
        (created.map(|time| time.0), self.name().to_owned())
    }
}

/// The controller of StorageVersionMigrations.
pub fn controller() -> Controller {
    Controller::new::<StorageVersionMigration>()
        .named(NAME)
        .watches(
            kind::<StorageVersionMigration>(),
            map_object(|changed: &StorageVersionMigration, reader| {
                of_same_resource(reader, changed)
                    .iter()
                    .map(|own| ObjectKey::cluster(own.name()))
                    .collect::<Vec<_>>()
            }),
        )
        .reconcile(sync)
}

/// The migrations of the resource of one, which may wait for it.
fn of_same_resource(
    reader: &Reader,
    one: &StorageVersionMigration,
) -> Vec<Arc<StorageVersionMigration>> {
    let all = reader.list::<StorageVersionMigration>();
    all.iter()
        .filter(|other| other.spec.resource == one.spec.resource)
        .collect()
}

async fn sync(migration: Arc<StorageVersionMigration>, cx: Context) -> Result<Action> {
    match (migration.is(RUNNING), migration.is_over()) {
        (true, true) => finish(&migration, &cx).await,
        (false, true) => Ok(Action::done()),
        (false, false) if is_next(&migration, &cx) => begin(&migration, &cx).await,
        // Another one runs: its end starts the next reconcile.
        (false, false) => Ok(Action::done()),
        (true, false) => run(&migration, &cx).await,
    }
}

/// Whether the migration is the next to run.
fn is_next(migration: &StorageVersionMigration, cx: &Context) -> bool {
    let all = of_same_resource(cx.reader(), migration);
    let runs = all.iter().any(|own| own.is(RUNNING));
    let waiting = all.iter().filter(|own| !own.is_over());
    let first = waiting.min_by_key(|own| own.order());
    !runs && first.is_some_and(|first| first.name() == migration.name())
}

async fn begin(migration: &StorageVersionMigration, cx: &Context) -> Result<Action> {
    if let Some(definition) = definition(migration, cx).await? {
        let message = format!("Migration {} is running", migration.name());
        report(&definition, ("True", "MigrationRunning", message), None, cx).await?;
    }
    let (reason, message) = ("MigrationRunning", "The migration is running");
    set_condition(migration, RUNNING, "True", reason, message, cx).await
}

/// Stores the objects anew that were last written before the migration began.
async fn run(migration: &StorageVersionMigration, cx: &Context) -> Result<Action> {
    let Some(served) = served(migration, cx).await? else {
        let created = migration.metadata.creation_timestamp.as_ref();
        let is_new = created.is_some_and(|created| cx.now() < created.0 + PATIENCE);
        return match is_new {
            true => Ok(Action::after(RETRY)),
            false => fail(migration, "resource does not exist in discovery", cx).await,
        };
    };
    if VERBS.iter().any(|verb| !served.can(verb)) {
        let resource = &served.kind.plural;
        let message =
            format!("resource {resource:?} does not support discovery operations: {VERBS:?}");
        return fail(migration, &message, cx).await;
    }
    let known = migration.status.as_ref();
    let Some(since) = known.and_then(|status| status.resource_version.clone()) else {
        // The migration itself was written when it began to run, and all resources of a server
        // share one count of writes.
        let version = migration.metadata.resource_version.clone();
        let patch = Patch::Merge(json!({"status": {"resourceVersion": version}}));
        cx.client().patch_status(migration, patch).await?;
        return Ok(Action::done());
    };
    let since: u64 = since.parse().unwrap_or(u64::MAX);
    let objects = cx.client().of_kind::<AnyMeta>(served.kind.clone());
    for object in objects.live_list(&Selection::default()).await? {
        let version = object.metadata.resource_version.as_deref();
        let is_old = version.and_then(|text| text.parse().ok()) <= Some(since);
        if is_old && let Err(error) = store_anew(&served, &object, cx).await {
            return match is_passing(&error) {
                true => Err(error.into()),
                false => {
                    let message = format!("migration encountered unhandled error: {error}");
                    fail(migration, &message, cx).await
                }
            };
        }
    }
    let reason = "StorageVersionMigrationSucceeded";
    set_condition(migration, SUCCEEDED, "True", reason, "", cx).await
}

/// Writes an object without a change. One that was written or deleted meanwhile needs it no more.
async fn store_anew(
    served: &ServedKind,
    object: &AnyMeta,
    cx: &Context,
) -> Result<(), client::Error> {
    let kind = &served.kind;
    let patch = Patch::Apply {
        object: json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": {
                "name": object.name(),
                "uid": object.metadata.uid,
                "resourceVersion": object.metadata.resource_version,
            },
        }),
        force: false,
    };
    let client = cx.client().with_field_manager(NAME);
    let objects = client.of_kind::<AnyMeta>(kind.clone());
    match objects.patch(object, patch).await {
        Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Whether the same request may succeed later.
fn is_passing(error: &client::Error) -> bool {
    match error {
        client::Error::Api(status) => {
            matches!(status.code, 429 | 503 | 504) || status.reason == "InternalError"
        }
        client::Error::Transport { .. } => true,
        _ => false,
    }
}

/// Tells the definition that the migration is over, and which versions it stores now.
async fn finish(migration: &StorageVersionMigration, cx: &Context) -> Result<Action> {
    if let Some(definition) = definition(migration, cx).await? {
        let generation = definition.metadata.generation;
        // Objects may have been stored in another version if it was changed since.
        let is_same = migrating_generation(&definition) == generation;
        let stored = definition
            .spec
            .versions
            .iter()
            .find(|version| version.storage);
        let stored = stored.map(|version| version.name.as_str());
        let (reason, message) = match (migration.is(SUCCEEDED), is_same) {
            (true, true) => (
                "MigrationSucceeded",
                "The migration has succeeded and the stored versions have been updated",
            ),
            (true, false) => (
                "MigrationSucceeded",
                "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
            ),
            (false, _) => ("MigrationFailed", "The migration has failed"),
        };
        let stored = stored.filter(|_| is_same && migration.is(SUCCEEDED));
        let condition = ("False", reason, message.to_owned());
        report(&definition, condition, stored, cx).await?;
    }
    let (reason, message) = ("MigrationCompleted", "Migration completed");
    set_condition(migration, RUNNING, "False", reason, message, cx).await
}

async fn fail(migration: &StorageVersionMigration, why: &str, cx: &Context) -> Result<Action> {
    let reason = "StorageVersionMigrationFailed";
    set_condition(migration, FAILED, "True", reason, why, cx).await
}

/// The kind of the resource, in the version that the server prefers.
async fn served(migration: &StorageVersionMigration, cx: &Context) -> Result<Option<ServedKind>> {
    let wanted = &migration.spec.resource;
    let served = cx.served_kinds().await?;
    let mut served = served.into_iter();
    Ok(served.find(|own| own.kind.group == wanted.group && own.kind.plural == wanted.resource))
}

async fn definition(
    migration: &StorageVersionMigration,
    cx: &Context,
) -> Result<Option<CustomResourceDefinition>> {
    let GroupResource { group, resource } = &migration.spec.resource;
    let name = format!("{resource}.{group}");
    let key = ObjectKey::cluster(&name);
    Ok(cx.live().get::<CustomResourceDefinition>(key).await?)
}

/// The generation of a definition when its migration began.
fn migrating_generation(definition: &CustomResourceDefinition) -> Option<i64> {
    let status = definition.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let condition = conditions.find(|own| own.type_ == "StorageMigrating")?;
    let condition = serde_json::to_value(condition).ok()?;
    condition["observedGeneration"].as_i64()
}

/// Reports in the status of a definition whether it is migrated, and what is stored.
async fn report(
    definition: &CustomResourceDefinition,
    (status, reason, message): (&str, &str, String),
    stored: Option<&str>,
    cx: &Context,
) -> Result<()> {
    let mut own = json!({"conditions": [{
        "type": "StorageMigrating",
        "status": status,
        "lastTransitionTime": Time(cx.now()),
        "reason": reason,
        "message": message,
        "observedGeneration": definition.metadata.generation,
    }]});
    if let Some(stored) = stored {
        own["storedVersions"] = json!([stored]);
    }
    let patch = Patch::Apply {
        object: json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": definition.name(),
                "resourceVersion": definition.metadata.resource_version,
            },
            "status": own,
        }),
        force: true,
    };
    let client = cx.client().with_field_manager(RUNNER);
    client.patch_status(definition, patch).await?;
    Ok(())
}

/// Sets a condition of a migration. Its change starts the next reconcile.
async fn set_condition(
    migration: &StorageVersionMigration,
    condition: &str,
    status: &str,
    reason: &str,
    message: &str,
    cx: &Context,
) -> Result<Action> {
    let known = migration.status.iter();
    let others = known.flat_map(|status| &status.conditions);
    let others = others.filter(|own| own.type_ != condition);
    let mut all: Vec<Value> = others.map(|own| json!(own)).collect();
    all.push(json!({
        "type": condition,
        "status": status,
        "lastTransitionTime": Time(cx.now()),
        "reason": reason,
        "message": message,
    }));
    let patch = Patch::Merge(json!({
        "metadata": {"resourceVersion": migration.metadata.resource_version},
        "status": {"conditions": all},
    }));
    cx.client().patch_status(migration, patch).await?;
    Ok(Action::done())
}
