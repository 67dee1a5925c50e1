//! Converts custom resources between the versions of their definition, by its webhook.
//!
//! A request works with custom resources in its own version. What is stored in another one is
//! converted when it is read ([`Server::in_version`]), and what is written when it is stored
//! ([`Server::encode_for_storage`]). Definitions without a webhook (`strategy: None`) never come
//! here: their versions differ in `apiVersion` and schema only, which
//! [`Resource::decode`](crate::catalog::Resource::decode) sees to.
//!
//! Several objects are sent in one review, where Kubernetes sends one for each: if the webhook
//! refuses them, each is sent alone, so that the error is that of the first bad object.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`: `Convert`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go`:
//!   `crdConversionRESTOptionsGetter`, `schemaCoercingConverter`

mod metadata;
mod review;

use std::time::Duration;

use bytes::Bytes;
use sendo_apimachinery::{MetaMut, Status};
use serde_json::Value;

use super::Server;
use crate::catalog::Resource;
use crate::catalog::custom::{ConversionWebhook, Custom};
use crate::catalog::stored_form::{self, Stored};
use crate::metrics::conversion::ConversionCall;
use crate::webhook::{CallError, review as reviews};
use review::{Fault, Review};

/// How long a webhook may take.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// How many objects go into one review at most.
const MOST_OBJECTS: usize = 500;

/// How many bytes the objects of one review have at most, if there are several.
const MOST_BYTES: usize = 1 << 20;

/// Why objects were not converted.
enum Failure {
    /// The webhook was not reached: it would be the same for each object alone.
    Unreached(String),
    /// The webhook refuses, or its answer is no good.
    Refused(String),
}

impl Failure {
    fn into_text(self) -> String {
        match self {
            Failure::Unreached(text) | Failure::Refused(text) => text,
        }
    }
}

impl Resource {
    /// Its definition's part, if a webhook converts between the versions.
    fn converted(&self) -> Option<(&Custom, &ConversionWebhook)> {
        let custom = self.custom.as_deref()?;
        Some((custom, custom.versions.webhook.as_ref()?))
    }

    /// Whether a webhook converts between its versions.
    pub(crate) fn has_conversion_webhook(&self) -> bool {
        self.converted().is_some()
    }
}

impl Server {
    /// Brings stored objects into the version of `resource`, if a webhook has to.
    pub(crate) async fn in_version(
        &self,
        resource: &Resource,
        mut stored: Vec<Stored>,
    ) -> Result<Vec<Stored>, Status> {
        let Some((custom, webhook)) = resource.converted() else {
            return Ok(stored);
        };
        let own = resource.types.api_version.as_str();
        let (mut places, mut objects) = (Vec::new(), Vec::new());
        for (place, item) in stored.iter_mut().enumerate() {
            let version = custom.versions.of_stored(&item.value).map_err(|name| {
                Status::unclassified(format!(
                    "request to convert CR from an invalid group/version: {name}"
                ))
            })?;
            let is_own = version.api_version == own;
            if is_own && !custom.is_outdated(item.at) {
                continue;
            }
            let mut object = stored_form::object_of(&item.value);
            object["apiVersion"] = version.api_version.as_str().into();
            object["kind"] = resource.types.kind.as_str().into();
            version.refresh(&mut object);
            if is_own {
                item.value = stored_form::encode_managed(&object, None, Some(own));
            } else {
                places.push(place);
                objects.push(object);
            }
        }
        let converted = self.convert_all(custom, webhook, objects, own).await;
        for (place, mut object) in places.into_iter().zip(converted?) {
            let admitted = custom.schema().admit(&mut object, &self.types);
            admitted.map_err(|error| Status::unclassified(error.to_string()))?;
            stored[place].value = stored_form::encode_managed(&object, None, Some(own));
        }
        Ok(stored)
    }

    /// The bytes to store for an object in the version of `resource`, whose list of managers may
    /// be given as text.
    pub(crate) async fn encode_for_storage(
        &self,
        resource: &Resource,
        object: &mut Value,
        managers: Option<&str>,
    ) -> Result<Bytes, Status> {
        let Some((custom, webhook)) = resource.converted().filter(|(custom, _)| {
            custom.versions.storage().api_version != resource.types.api_version
        }) else {
            return Ok(self.encode_managed(resource, object, managers));
        };
        let mut sent = object.clone();
        let mut meta = MetaMut::new(&mut sent);
        meta.remove("resourceVersion");
        if let Some(managers) = managers {
            let list: Value = serde_json::from_str(managers).expect("a list that was written here");
            meta.set("managedFields", list);
        }
        let storage = custom.versions.storage();
        let converted = self.convert_one(custom, webhook, sent, &storage.api_version);
        let mut converted = converted.await.map_err(Status::unclassified)?;
        let admitted = storage.schema.admit(&mut converted, &self.types);
        admitted.map_err(|error| Status::unclassified(error.to_string()))?;
        storage.schema.set_defaults(&mut converted);
        let version = Some(storage.api_version.as_str());
        Ok(stored_form::encode_managed(&converted, None, version))
    }

    /// An object of a resource in another version of it, or why there is none.
    ///
    /// The schema of the other version is not applied.
    pub(crate) async fn convert_object(
        &self,
        resource: &Resource,
        object: &Value,
        wanted: &str,
    ) -> Result<Value, String> {
        let mut object = object.clone();
        match resource.converted() {
            Some((custom, webhook)) if object["apiVersion"] != wanted => {
                self.convert_one(custom, webhook, object, wanted).await
            }
            _ => {
                object["apiVersion"] = wanted.into();
                Ok(object)
            }
        }
    }

    async fn convert_one(
        &self,
        custom: &Custom,
        webhook: &ConversionWebhook,
        object: Value,
        wanted: &str,
    ) -> Result<Value, String> {
        let converted = self.review(custom, webhook, &[object], wanted).await;
        let mut converted = converted.map_err(Failure::into_text)?;
        Ok(converted.remove(0))
    }

    async fn convert_all(
        &self,
        custom: &Custom,
        webhook: &ConversionWebhook,
        objects: Vec<Value>,
        wanted: &str,
    ) -> Result<Vec<Value>, Status> {
        let mut converted = Vec::with_capacity(objects.len());
        let mut rest = objects.as_slice();
        while !rest.is_empty() {
            let (chunk, others) = rest.split_at(chunk_length(rest));
            rest = others;
            match self.review(custom, webhook, chunk, wanted).await {
                Ok(all) => converted.extend(all),
                Err(Failure::Refused(_)) if chunk.len() > 1 => {
                    for object in chunk {
                        let one = self.convert_one(custom, webhook, object.clone(), wanted);
                        converted.push(one.await.map_err(Status::unclassified)?);
                    }
                }
                Err(failure) => return Err(Status::unclassified(failure.into_text())),
            }
        }
        Ok(converted)
    }

    /// Has the webhook convert objects, which are in other versions than the one that is wanted.
    async fn review(
        &self,
        custom: &Custom,
        webhook: &ConversionWebhook,
        objects: &[Value],
        wanted: &str,
    ) -> Result<Vec<Value>, Failure> {
        let Some(version) = reviews::version(&webhook.review_versions) else {
            let text = "no supported conversion review versions".to_owned();
            return Err(Failure::Unreached(text));
        };
        let review = Review {
            version,
            uid: self.world.random().uuid(),
            wanted,
            objects,
        };
        let began = self.world.clock().now();
        let body = Bytes::from(review.to_json().to_string());
        let answer = self.webhooks.post(&webhook.client, TIME_LIMIT, body).await;
        let text = |member: &str| objects[0][member].as_str().unwrap_or_default();
        let (from, kind) = (text("apiVersion"), text("kind"));
        let told = |fault: String| format!("conversion webhook for {from}, Kind={kind} {fault}");
        let (outcome, failure) = match answer {
            Ok(answer) => match review.read(&answer) {
                Ok(converted) => (Ok(converted), None),
                Err(fault) => {
                    let text = match &fault {
                        Fault::NoObject(why) => why.clone(),
                        other => told(other.to_string()),
                    };
                    (Err(Failure::Refused(text)), Some(fault.label()))
                }
            },
            Err(error) => {
                let text = told(format!("failed: {error}"));
                let failure = match error {
                    CallError::Configuration(_) | CallError::Call(_) => Failure::Unreached(text),
                    CallError::Response(_) => Failure::Refused(text),
                };
                (Err(failure), Some("conversion_webhook_call_failure"))
            }
        };
        self.metrics.conversion.call(&ConversionCall {
            definition: &custom.definition,
            from_version: version_of(from),
            to_version: version_of(wanted),
            failure,
            time: self.world.clock().now() - began,
        });
        outcome
    }
}

/// The version of an `apiVersion`.
fn version_of(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or_default()
}

/// How many of the objects go into the next review.
fn chunk_length(objects: &[Value]) -> usize {
    let mut size = 0;
    let fitting = objects.iter().take(MOST_OBJECTS).take_while(|object| {
        size += object.to_string().len();
        size <= MOST_BYTES
    });
    fitting.count().max(1)
}
