//! Buckets and objects in memory, behind the operations of S3.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use futures::TryStreamExt;
use s3s::dto::*;
use s3s::{Body, S3, S3Request, S3Response, S3Result, s3_error};
use sendo::Clock;

/// The maximum number of keys in a response of S3.
const MAX_PAGE_SIZE: i32 = 1000;

/// All buckets of a server. Clones share them.
#[derive(Clone)]
pub(super) struct Buckets {
    clock: Clock,
    by_name: Arc<Mutex<BTreeMap<String, Objects>>>,
}

type Objects = BTreeMap<String, Stored>;

struct Stored {
    bytes: Bytes,
    modified: SystemTime,
}

impl Buckets {
    pub(super) fn new(clock: &Clock) -> Self {
        Buckets {
            clock: clock.clone(),
            by_name: Arc::default(),
        }
    }

    /// Creates a bucket; returns whether there was none of that name.
    pub(super) fn create(&self, name: &str) -> bool {
        let mut buckets = self.lock();
        let new = !buckets.contains_key(name);
        buckets.entry(name.to_owned()).or_default();
        new
    }

    pub(super) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Puts an object, if there is such a bucket.
    pub(super) fn put(&self, bucket: &str, key: &str, bytes: Bytes) {
        let stored = Stored {
            bytes,
            modified: self.clock.wall().into(),
        };
        if let Some(objects) = self.lock().get_mut(bucket) {
            objects.insert(key.to_owned(), stored);
        }
    }

    pub(super) fn take(&self, bucket: &str, key: &str) {
        if let Some(objects) = self.lock().get_mut(bucket) {
            objects.remove(key);
        }
    }

    /// The names of all objects of a bucket; `None` if there is no such bucket.
    pub(super) fn keys(&self, bucket: &str) -> Option<Vec<String>> {
        let buckets = self.lock();
        let objects = buckets.get(bucket)?;
        Some(objects.keys().cloned().collect())
    }

    fn with<T>(&self, bucket: &str, f: impl FnOnce(&mut Objects) -> S3Result<T>) -> S3Result<T> {
        match self.lock().get_mut(bucket) {
            Some(objects) => f(objects),
            None => Err(s3_error!(NoSuchBucket, "there is no bucket {bucket:?}")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Objects>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait::async_trait]
impl S3 for Buckets {
    async fn create_bucket(
        &self,
        request: S3Request<CreateBucketInput>,
    ) -> S3Result<S3Response<CreateBucketOutput>> {
        let name = request.input.bucket;
        if !self.create(&name) {
            return Err(s3_error!(BucketAlreadyOwnedByYou));
        }
        Ok(S3Response::new(CreateBucketOutput {
            location: Some(format!("/{name}")),
        }))
    }

    async fn head_bucket(
        &self,
        request: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        self.with(&request.input.bucket, |_| Ok(()))?;
        Ok(S3Response::new(HeadBucketOutput::default()))
    }

    async fn delete_bucket(
        &self,
        request: S3Request<DeleteBucketInput>,
    ) -> S3Result<S3Response<DeleteBucketOutput>> {
        let name = request.input.bucket;
        self.with(&name, |objects| match objects.is_empty() {
            true => Ok(()),
            false => Err(s3_error!(BucketNotEmpty)),
        })?;
        self.remove(&name);
        Ok(S3Response::new(DeleteBucketOutput::default()))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        if input.delimiter.is_some() {
            return Err(s3_error!(NotImplemented, "this store does not group keys"));
        }
        let prefix = input.prefix.unwrap_or_default();
        // The continuation token is the last key of the page before.
        let after = input.continuation_token.or(input.start_after.clone());
        let max_keys = input.max_keys.unwrap_or(MAX_PAGE_SIZE);
        let page_size = usize::try_from(max_keys.min(MAX_PAGE_SIZE))
            .map_err(|_| s3_error!(InvalidArgument, "max-keys must not be negative"))?;

        let (page, more) = self.with(&input.bucket, |objects| {
            let from = match &after {
                Some(after) if *after >= prefix => Bound::Excluded(after),
                _ => Bound::Included(&prefix),
            };
            let mut found = objects
                .range::<String, _>((from, Bound::Unbounded))
                .take_while(|(key, _)| key.starts_with(&prefix))
                .map(|(key, stored)| Object {
                    key: Some(key.clone()),
                    size: i64::try_from(stored.bytes.len()).ok(),
                    last_modified: Some(stored.modified.into()),
                    ..Default::default()
                });
            let page: Vec<Object> = found.by_ref().take(page_size).collect();
            Ok((page, found.next().is_some()))
        })?;
        let last = page.last().and_then(|object| object.key.clone());
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: Some(prefix),
            max_keys: Some(max_keys),
            key_count: i32::try_from(page.len()).ok(),
            contents: Some(page),
            is_truncated: Some(more && last.is_some()),
            next_continuation_token: last.filter(|_| more),
            start_after: input.start_after,
            ..Default::default()
        }))
    }

    async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let PutObjectInput {
            bucket, key, body, ..
        } = request.input;
        let mut bytes = Vec::new();
        if let Some(mut body) = body {
            let broken_off = |_| s3_error!(IncompleteBody);
            while let Some(part) = body.try_next().await.map_err(broken_off)? {
                bytes.extend_from_slice(&part);
            }
        }
        let stored = Stored {
            bytes: bytes.into(),
            modified: self.clock.wall().into(),
        };
        self.with(&bucket, |objects| {
            objects.insert(key, stored);
            Ok(())
        })?;
        Ok(S3Response::new(PutObjectOutput::default()))
    }

    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let GetObjectInput { bucket, key, .. } = request.input;
        let (bytes, modified) = self.with(&bucket, |objects| match objects.get(&key) {
            Some(stored) => Ok((stored.bytes.clone(), stored.modified)),
            None => Err(s3_error!(NoSuchKey)),
        })?;
        Ok(S3Response::new(GetObjectOutput {
            content_length: i64::try_from(bytes.len()).ok(),
            body: Some(StreamingBlob::from(Body::from(bytes))),
            last_modified: Some(modified.into()),
            ..Default::default()
        }))
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        let DeleteObjectInput { bucket, key, .. } = request.input;
        self.with(&bucket, |objects| {
            objects.remove(&key);
            Ok(())
        })?;
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }
}
