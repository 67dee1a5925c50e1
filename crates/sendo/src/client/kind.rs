//! The objects of one kind on the API server.

use std::any::TypeId;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::core::TypeMeta;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Client;
use super::delete::{Delete, is_gone};
use super::patch::Patch;
use super::subresource::Subresource;
use super::target::Target;
use crate::cache::{Selection, Wanted};
use crate::object::{Kind, Object, ObjectExt, ObjectKey, Typed, Uid};
use crate::owner::{check_controller, set_controller};
use crate::transport::{Error, Request, Transport, to_json, type_hint};

/// The writes and live reads of one kind, for kinds known only at run time.
/// Where the type knows its kind, [`Client`] has the same methods.
///
/// A write that succeeds is at once seen by all cached reads of this program.
/// If the future of a write is dropped, or fails for want of an answer, it is
/// not known whether the write took place; the cache then learns it from the watch.
pub struct KindClient<K> {
    client: Client,
    kind: Arc<Kind>,
    of: PhantomData<fn() -> K>,
}

impl<K> Clone for KindClient<K> {
    fn clone(&self) -> Self {
        KindClient {
            client: self.client.clone(),
            kind: self.kind.clone(),
            of: PhantomData,
        }
    }
}

impl<K: Object> KindClient<K> {
    pub(super) fn new(client: Client, kind: Kind) -> Self {
        KindClient {
            client,
            kind: Arc::new(kind),
            of: PhantomData,
        }
    }

    /// Creates an object. The answer is the object with what the server added.
    pub async fn create(&self, object: &K) -> Result<K, Error> {
        let key = ObjectKey::from_object(object);
        self.check_scope(&key)?;
        let request = self.write(Method::POST, self.kind.path(key.namespace()));
        self.send_object(request, object).await
    }

    /// Creates an object that `owner` controls, and that goes away with it.
    ///
    /// Fails with [`Error::Owner`] if the owner cannot own it.
    pub async fn create_owned<O: Typed>(&self, owner: &O, mut object: K) -> Result<K, Error> {
        set_controller(owner, &mut object)?;
        self.create(&object).await
    }

    /// Replaces an object. With a version it fails with a conflict if the
    /// object has changed since.
    pub async fn update(&self, object: &K) -> Result<K, Error> {
        let path = self.object_path(&ObjectKey::from_object(object))?;
        let request = self.write(Method::PUT, path);
        self.send_object(request, object).await
    }

    /// Replaces the status of an object, and nothing else of it.
    pub async fn replace_status(&self, object: &K) -> Result<K, Error> {
        let path = self.object_path(&ObjectKey::from_object(object))?;
        let request = self.write(Method::PUT, format!("{path}/status"));
        self.send_object(request, object).await
    }

    /// Changes a part of an object.
    ///
    /// A merge or strategic patch of an object, rather than of a key, fails if
    /// another object has taken its name.
    pub async fn patch(&self, target: &impl Target<K>, patch: Patch) -> Result<K, Error> {
        let path = self.object_path(&target.target_key())?;
        self.send_patch(path, guarded(patch, target.target_uid()))
            .await
    }

    /// Changes a part of an object's status. The patch is of the whole object:
    /// `{"status": {…}}`.
    pub async fn patch_status(&self, target: &impl Target<K>, patch: Patch) -> Result<K, Error> {
        let path = format!("{}/status", self.object_path(&target.target_key())?);
        self.send_patch(path, guarded(patch, target.target_uid()))
            .await
    }

    /// Server-side apply: creates the object or makes it as said here, taking
    /// over fields that belong to others.
    ///
    /// Nothing is sent if that would change nothing: the cache knows the object, and this manager
    /// owns by apply just the fields that are said, with their values. The answer is then the
    /// object as the cache has it. That is known after a restart too, as the API server keeps who
    /// owns what. Where it cannot be known for certain the apply is sent: of kinds that are not
    /// cached as this type, or cut down; and once in a process, where the server writes values in
    /// another way than they were said, as `1` for the quantity `1000m`.
    pub async fn apply(&self, object: &K) -> Result<K, Error> {
        let key = ObjectKey::from_object(object);
        let path = self.object_path(&key)?;
        let mut patch = Patch::apply(object)?;
        if let Patch::Apply { object, .. } = &mut patch {
            self.name_kind(object);
        }
        let body = patch.value().clone();
        let wanted = Wanted {
            manager: self.client.field_manager(),
            api_version: &self.kind.api_version(),
            object: &body,
        };
        let cache = self.client.cache();
        if !self.client.is_dry_run()
            && let Some(known) = cache.applied_already::<K>(&self.kind, &key, &wanted)
        {
            return Ok(Arc::unwrap_or_clone(known));
        }
        let applied = self.send_patch(path, patch).await?;
        if !self.client.is_dry_run() {
            cache.applied(&self.kind, &applied, &wanted);
        }
        Ok(applied)
    }

    /// Server-side apply of an object that `owner` controls, and that goes away with it.
    ///
    /// Fails with [`Error::Owner`] if the owner cannot own it, or if the object
    /// that this program knows under the name is controlled by another.
    pub async fn apply_owned<O: Typed>(&self, owner: &O, mut object: K) -> Result<K, Error> {
        set_controller(owner, &mut object)?;
        if let Some(known) = self.cached(&ObjectKey::from_object(&object)) {
            check_controller(owner, &*known)?;
        }
        self.apply(&object).await
    }

    /// Deletes an object: that very one if given the object, whatever bears the
    /// name if given a key. One that is not there is no error.
    pub fn delete(&self, target: &impl Target<K>) -> Delete<K> {
        Delete::new(
            self.clone(),
            target.target_key(),
            target.target_uid(),
            target.seen_at(),
        )
    }

    /// Deletes all selected objects.
    ///
    /// The API server does not say which of them are gone and which only marked: the cache shows it
    /// when the watch does.
    pub async fn delete_all(&self, selection: &Selection) -> Result<(), Error> {
        for namespace in selection.scopes() {
            let path = self.kind.path(namespace.as_deref());
            let request = selection.restrict(self.write(Method::DELETE, path));
            self.transport().send(&request).await?;
        }
        Ok(())
    }

    /// The object as the API server has it now, `None` if there is none.
    pub async fn live_get(&self, key: &ObjectKey) -> Result<Option<K>, Error> {
        let request = Request::get(self.object_path(key)?).accept(self.accept());
        let request = request.about(type_hint::<K>());
        match self.transport().send(&request).await {
            Ok(answer) => decode(&request, &answer).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The selected objects as the API server has them now.
    pub async fn live_list(&self, selection: &Selection) -> Result<Vec<K>, Error> {
        let mut all = Vec::new();
        for namespace in selection.scopes() {
            let path = self.kind.path(namespace.as_deref());
            let request = Request::get(path).accept(self.accept_list());
            let request = request.about(type_hint::<K>());
            let request = selection.restrict(request).query("limit", "500");
            all.extend(self.pages(request).await?);
        }
        Ok(all)
    }

    async fn pages(&self, first: Request) -> Result<Vec<K>, Error> {
        #[derive(Deserialize)]
        #[serde(bound = "K: Object")]
        struct Page<K> {
            metadata: PageMeta,
            items: Option<Vec<K>>,
        }
        #[derive(Deserialize)]
        struct PageMeta {
            #[serde(default)]
            r#continue: String,
        }
        let (mut all, mut request) = (Vec::new(), first.clone());
        loop {
            let answer = self.transport().send(&request).await?;
            let page: Page<K> = decode(&request, &answer)?;
            all.extend(page.items.unwrap_or_default());
            if page.metadata.r#continue.is_empty() {
                return Ok(all);
            }
            request = first.clone().query("continue", &page.metadata.r#continue);
        }
    }

    /// A subresource of an object, such as `scale`, `eviction` or `binding`.
    pub fn subresource(&self, target: &impl Target<K>, name: &str) -> Result<Subresource, Error> {
        let path = format!("{}/{name}", self.object_path(&target.target_key())?);
        Ok(Subresource::new(self.client.clone(), path))
    }

    /// The newest state of this very object that is known without asking: what
    /// this program has written since `object` was read is in the cache.
    pub(super) fn newest_of<'a>(&self, object: &'a K) -> Cow<'a, K> {
        let cached = self.cached(&ObjectKey::from_object(object));
        let newer =
            |cached: &Arc<K>| cached.uid() == object.uid() && cached.version() > object.version();
        match cached.filter(newer) {
            Some(cached) => Cow::Owned(Arc::unwrap_or_clone(cached)),
            None => Cow::Borrowed(object),
        }
    }

    /// The newest state known: the cache's, which has this program's own writes,
    /// or else what the API server has.
    ///
    /// An object that is cut down in the cache is never written
    /// back from there: it would lose what was cut.
    pub(super) async fn newest(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, Error> {
        let whole = !self.client.cache().is_cut::<K>(&self.kind);
        if let Some(cached) = self.cached(key).filter(|_| whole) {
            return Ok(Some(cached));
        }
        Ok(self.live_get(key).await?.map(Arc::new))
    }

    pub(super) fn cached(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.client.cache().peek(&self.kind, key)
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn transport(&self) -> &Transport {
        self.client.transport()
    }

    pub(super) fn object_path(&self, key: &ObjectKey) -> Result<String, Error> {
        self.check_scope(key)?;
        if key.name().is_empty() {
            let kind = &self.kind;
            return Err(Error::Refused(format!("{kind}: the object has no name")));
        }
        let collection = self.kind.path(key.namespace());
        Ok(format!("{collection}/{}", key.name()))
    }

    /// The API server would only say that there is no such path.
    fn check_scope(&self, key: &ObjectKey) -> Result<(), Error> {
        let (scope, kind) = (TypeId::of::<K::Scope>(), &self.kind);
        let refused = match key.namespace() {
            None if scope == TypeId::of::<NamespaceResourceScope>() => {
                format!("{kind} live in namespaces: set `metadata.namespace`")
            }
            Some(_) if scope == TypeId::of::<ClusterResourceScope>() => {
                format!("{kind} live in no namespace, but `{key}` names one")
            }
            _ => return Ok(()),
        };
        Err(Error::Refused(refused))
    }

    pub(super) fn write(&self, method: Method, path: String) -> Request {
        self.client.write(method, path).about(type_hint::<K>())
    }

    async fn send_object(&self, request: Request, object: &K) -> Result<K, Error> {
        if K::metadata_api() {
            return Err(Error::Refused(format!(
                "{request}: metadata alone is not a whole object; change it with a patch"
            )));
        }
        let mut body = to_json(object)?;
        self.name_kind(&mut body);
        self.send(request.json(&body)?).await
    }

    async fn send_patch(&self, path: String, patch: Patch) -> Result<K, Error> {
        let request = self.client.patch_request(path, &patch)?;
        let request = request.accept(self.accept()).about(type_hint::<K>());
        self.send(request).await
    }

    /// Sends a write that is answered with the object, and shows the cache what came of it.
    async fn send(&self, request: Request) -> Result<K, Error> {
        let answer = self.transport().send(&request).await?;
        let object: K = decode(&request, &answer)?;
        // Taking away the last finalizer is answered with the object as it was.
        if is_gone(&object) {
            let key = ObjectKey::from_object(&object);
            self.hide(&key, &object.uid(), object.version());
        } else {
            self.show(&answer, &object);
        }
        Ok(object)
    }

    pub(super) fn show(&self, answer: &Bytes, object: &K) {
        if !self.client.is_dry_run() {
            self.client.cache().wrote(&self.kind, answer, object);
        }
    }

    pub(super) fn hide(&self, key: &ObjectKey, uid: &Uid, since: u64) {
        if !self.client.is_dry_run() {
            self.client.cache().deleted(&self.kind, key, uid, since);
        }
    }

    fn accept(&self) -> &'static str {
        if K::metadata_api() {
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        } else {
            "application/json"
        }
    }

    fn accept_list(&self) -> &'static str {
        if K::metadata_api() {
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        } else {
            "application/json"
        }
    }

    /// An object of no type of its own need not say what kind it is.
    fn name_kind(&self, object: &mut Value) {
        let types = TypeMeta {
            api_version: self.kind.api_version(),
            kind: self.kind.kind.clone(),
        };
        if let Value::Object(members) = object {
            members.insert("apiVersion".to_owned(), types.api_version.into());
            members.insert("kind".to_owned(), types.kind.into());
        }
    }
}

impl<K> fmt::Debug for KindClient<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KindClient").field(&self.kind).finish()
    }
}

/// Makes the API server refuse a patch for another object of the same name.
fn guarded(mut patch: Patch, uid: Option<Uid>) -> Patch {
    if let (Patch::Merge(value) | Patch::Strategic(value), Some(uid)) = (&mut patch, uid)
        && let Value::Object(members) = value
    {
        let meta = members.entry("metadata").or_insert_with(|| json!({}));
        if let Value::Object(meta) = meta {
            meta.entry("uid").or_insert_with(|| uid.as_str().into());
        }
    }
    patch
}

pub(super) fn decode<T: serde::de::DeserializeOwned>(
    request: &Request,
    answer: &Bytes,
) -> Result<T, Error> {
    serde_json::from_slice(answer).map_err(|cause| request.codec_error(&cause))
}
