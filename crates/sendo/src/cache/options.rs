//! Choices for a cache: for all kinds, and for each.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::applied::Applied;
use super::cut::Part;
use super::metadata::KeptMetadata;
use super::reader::blank;
use super::selection::{Namespaces, Selection};
use crate::metrics::ClientMetrics;
use crate::object::{Kind, Object, Typed};
use crate::rights::DeclaredRights;

/// Choices for all informers of a cache.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The program's name, sent as user agent. `sendo` by default.
    pub name: String,
    /// How long a request may take; a watch, to begin. 30 s by default.
    pub timeout: Duration,
    /// Whether `metadata.managedFields` are kept in memory. They are not by
    /// default: they often take more memory than all the rest.
    pub keep_managed_fields: bool,
    /// How often every object is delivered again, as an update that changed
    /// nothing. Spread by a tenth, so that kinds do not come together; never
    /// leaves the process. `None`, the default: never, as a watch loses nothing.
    pub resync: Option<Duration>,
    /// Whether initial lists come as a stream, object by object, which spares
    /// memory on both sides. True by default; where the API server cannot do it,
    /// lists come in pages all the same.
    pub streaming: bool,
    /// Where requests are counted. Nowhere by default.
    pub metrics: Option<ClientMetrics>,
    /// The lists and watches that are sent; others are refused before. All by
    /// default: a [`Manager`](crate::Manager) gives its cache what it has declared.
    pub rights: Option<DeclaredRights>,
    /// Other choices for some kinds. None by default.
    pub kinds: PerKind,
}

/// Choices that differ from kind to kind; made by [`CacheOptions::kind`].
#[derive(Clone, Default)]
pub struct PerKind(BTreeMap<(TypeId, Option<Kind>), Arc<dyn Any + Send + Sync>>);

impl fmt::Debug for PerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.0.keys().map(|(_, kind)| match kind {
            Some(kind) => kind.to_string(),
            None => "every kind".to_owned(),
        });
        f.debug_set().entries(kinds).finish()
    }
}

impl Default for CacheOptions {
    fn default() -> Self {
        CacheOptions {
            name: "sendo".to_owned(),
            timeout: Duration::from_secs(30),
            keep_managed_fields: false,
            resync: None,
            streaming: true,
            metrics: None,
            rights: None,
            kinds: PerKind::default(),
        }
    }
}

impl CacheOptions {
    /// With other choices for one kind, read as `K`.
    pub fn kind<K: Typed>(self, options: KindOptions<K>) -> Self {
        self.kind_named(Kind::of::<K>(), options)
    }

    /// The same for a kind known only at run time.
    pub fn kind_named<K: Object>(mut self, kind: Kind, options: KindOptions<K>) -> Self {
        let id = (TypeId::of::<K>(), Some(kind));
        self.kinds.0.insert(id, Arc::new(options));
        self
    }

    /// The same for every kind that is read as `K`, such as
    /// [`AnyMeta`](crate::source::AnyMeta), and has no choices of its own.
    pub fn every_kind<K: Object>(mut self, options: KindOptions<K>) -> Self {
        let id = (TypeId::of::<K>(), None);
        self.kinds.0.insert(id, Arc::new(options));
        self
    }

    pub(super) fn for_kind<K: Object>(&self, kind: &Kind) -> KindOptions<K> {
        let find = |kind| self.kinds.0.get(&(TypeId::of::<K>(), kind));
        let options = find(Some(kind.clone())).or_else(|| find(None));
        let options = options.and_then(|options| options.downcast_ref::<KindOptions<K>>());
        let mut options = options.cloned().unwrap_or_default();
        options.keep_managed_fields |= self.keep_managed_fields;
        options.resync = options.resync.or(self.resync);
        options
    }
}

/// Choices for the informers of one kind; see [`CacheOptions::kind`].
///
/// ```
/// use k8s_openapi::api::core::v1::Secret;
/// use sendo::cache::{CacheOptions, KindOptions};
///
/// // Only the keys of Secrets matter to this program.
/// let names_only = KindOptions::<Secret>::new().transform(|secret| {
///     secret.data.iter_mut().flatten().for_each(|(_, value)| value.0.clear());
/// });
/// let options = CacheOptions::default().kind(names_only);
/// ```
pub struct KindOptions<K> {
    selection: Selection,
    pub(super) keep_managed_fields: bool,
    pub(super) resync: Option<Duration>,
    pub(super) compact: bool,
    only: Option<Vec<String>>,
    without: Vec<String>,
    pub(super) transform: Option<Transform<K>>,
    /// What is decoded of an object, by all of this.
    pub(super) part: Part,
    /// What is decoded of its metadata, if that can be decoded separately.
    pub(super) metadata: Option<KeptMetadata>,
    /// What an object of metadata only is made from.
    pub(super) blank: Option<Arc<K>>,
    /// Where it is noted what this program has applied.
    pub(super) applied: Option<Arc<Applied>>,
}

pub(super) type Transform<K> = Arc<dyn Fn(&mut K) + Send + Sync>;

impl<K> KindOptions<K> {
    /// What the cache does by itself.
    pub fn new() -> Self {
        KindOptions {
            selection: Selection::default(),
            keep_managed_fields: false,
            resync: None,
            compact: false,
            only: None,
            without: Vec::new(),
            transform: None,
            part: Part::default(),
            metadata: None,
            blank: None,
            applied: None,
        }
    }

    /// Fetches only part of the kind, for all who watch or read it and do not
    /// themselves say which part they want.
    pub fn selecting(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// Keeps `metadata.managedFields` in memory.
    pub fn keep_managed_fields(mut self) -> Self {
        self.keep_managed_fields = true;
        self
    }

    /// Delivers every object again that often; see [`CacheOptions::resync`].
    pub fn resync(mut self, every: Duration) -> Self {
        self.resync = Some(every);
        self
    }

    /// Keeps objects packed: in a tenth of the memory or less, and decoded each
    /// time they are read, but for a few that were read last. Worth it for kinds
    /// with many objects that are seldom read, such as Pods found by an index.
    ///
    /// Reading an object then takes some ten microseconds, and so does a change;
    /// keys, counts and indexes are as quick as ever.
    ///
    /// Needs the feature `compact`.
    #[cfg(feature = "compact")]
    pub fn compact(mut self) -> Self {
        self.compact = true;
        self
    }

    /// Reads only these fields of each object, beside its type and metadata:
    /// `status`, `spec.nodeName`, or in each element of a list,
    /// `spec.containers.resources`. The others are skipped before anything is
    /// decoded, which saves time and memory, and are as if they were not set.
    ///
    /// An object cut down like this must not be written back whole; the
    /// client's own read-and-write methods know that, and ask the API server.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use sendo::cache::KindOptions;
    ///
    /// let where_they_run = KindOptions::<Pod>::new().only(["spec.nodeName", "status.phase"]);
    /// ```
    ///
    /// What is left out still has its place in the type, and a Pod of
    /// `k8s-openapi` with one container takes four kilobytes with nothing in
    /// them. The surest way to a small cache is a type of your own that has only
    /// the fields you read. It is another view of the same kind: writes made as
    /// the whole type are seen in it at once. Change such an object by
    /// [`patch`](crate::Client::patch): written back whole it would lose what
    /// the type does not have.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1;
    /// use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    /// use kube::Resource;
    /// use sendo::cache::KindOptions;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Resource)]
    /// #[resource(inherit = v1::Pod)]
    /// struct Pod {
    ///     metadata: ObjectMeta,
    ///     spec: PodSpec,
    /// }
    ///
    /// #[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
    /// #[serde(rename_all = "camelCase")]
    /// struct PodSpec {
    ///     node_name: Option<String>,
    /// }
    ///
    /// let options = KindOptions::<Pod>::new().only(["spec.nodeName"]);
    /// let json = br#"{"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": []}}"#;
    /// assert_eq!(options.kept(json)?.spec.node_name.as_deref(), Some("n"));
    /// # Ok::<(), String>(())
    /// ```
    pub fn only<P: Into<String>>(mut self, fields: impl IntoIterator<Item = P>) -> Self {
        let fields = fields.into_iter().map(Into::into);
        self.only.get_or_insert_default().extend(fields);
        self
    }

    /// Skips these fields of each object, `metadata.annotations` for one, before
    /// anything is decoded; they are as if they were not set. See
    /// [`only`](Self::only), which it can be used with. Name, namespace, uid and
    /// version of an object must stay, and labels by which some are selected.
    pub fn without<P: Into<String>>(mut self, fields: impl IntoIterator<Item = P>) -> Self {
        self.without.extend(fields.into_iter().map(Into::into));
        self
    }

    /// Changes every object before it is kept: takes away what nobody here
    /// reads. Name, namespace, uid and version must stay.
    ///
    /// An object cut down like this must not be written back whole; the
    /// client's own read-and-write methods know that, and ask the API server.
    /// One on which the function panics is reported and left out. What this
    /// program writes to the metadata alone, as
    /// [`AnyMeta`](crate::source::AnyMeta), is seen when the watch shows it.
    pub fn transform(mut self, change: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(change));
        self
    }

    /// What is kept of an object that the API server sends, or why nothing is:
    /// for tests that what a program reads is among what it has chosen here.
    pub fn kept(&self, json: &[u8]) -> Result<K, String>
    where
        K: Object,
    {
        self.clone().settle().decode(json)
    }

    /// Whether what is kept of an object is less than there is.
    pub(super) fn cuts(&self) -> bool {
        self.skips() || self.transform.is_some()
    }

    /// Whether there are fields that are not read.
    pub(super) fn skips(&self) -> bool {
        self.only.is_some() || !self.without.is_empty()
    }

    /// Works out what all of this comes to, before anything is read.
    pub(super) fn settle(mut self) -> Self
    where
        K: Object,
    {
        let part = match self.keep_managed_fields {
            true => Part::Whole,
            false => Part::without_managed_fields(),
        };
        let part = match &self.only {
            Some(paths) => part.only(paths),
            None => part,
        };
        let without = self.without.iter();
        self.part = without.fold(part, |part, path| part.without(path));
        self.metadata = self.part.metadata();
        self.blank = blank().map(Arc::new);
        self
    }

    /// Notes in `applied` what this program has applied to the objects that are
    /// read; not of those that are cut down, which cannot be compared.
    pub(super) fn noting(mut self, applied: Applied) -> Self
    where
        K: Object,
    {
        let is_whole = !self.cuts() && !K::metadata_api();
        self.applied = is_whole.then(|| Arc::new(applied));
        self
    }

    /// The selection, completed by that of the kind's options where it selects everything.
    pub(super) fn select(&self, mut selection: Selection) -> Selection {
        if selection.labels.is_everything() {
            selection.labels = self.selection.labels.clone();
        }
        if selection.fields.is_everything() {
            selection.fields = self.selection.fields.clone();
        }
        if selection.namespaces == Namespaces::All {
            selection.namespaces = self.selection.namespaces.clone();
        }
        selection
    }
}

impl<K> Default for KindOptions<K> {
    fn default() -> Self {
        KindOptions::new()
    }
}

impl<K> Clone for KindOptions<K> {
    fn clone(&self) -> Self {
        KindOptions {
            selection: self.selection.clone(),
            only: self.only.clone(),
            without: self.without.clone(),
            transform: self.transform.clone(),
            part: self.part.clone(),
            metadata: self.metadata.clone(),
            blank: self.blank.clone(),
            applied: self.applied.clone(),
            ..*self
        }
    }
}

impl<K> fmt::Debug for KindOptions<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KindOptions")
            .field("selection", &self.selection)
            .field("keep_managed_fields", &self.keep_managed_fields)
            .field("resync", &self.resync)
            .field("compact", &self.compact)
            .field("only", &self.only)
            .field("without", &self.without)
            .field("transforms", &self.transform.is_some())
            .finish()
    }
}
