//! The `caBundle`s of a program: in its configurations of webhooks, and in the definitions of the
//! kinds that it converts.

use futures::future::BoxFuture;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::cache::{Cache, FieldSelector, Informer, Selection};
use crate::certificates::{Trusted, certificates_in};
use crate::client::{Client, Error};
use crate::object::{Kind, ObjectKey, Typed};
use crate::webhook::Reached;

/// Where a call goes: to a Service, by namespace and name, or to a URL without its path.
type Called<'a> = (Option<(&'a str, &'a str)>, Option<&'a str>);

/// An object with places that name authorities.
pub(super) trait Trusting: Typed {
    /// Where each of its calls goes, and whom it trusts there.
    fn places(&mut self) -> Vec<(Called<'_>, &mut Option<ByteString>)>;
}

macro_rules! configuration {
    ($kind:ty) => {
        impl Trusting for $kind {
            fn places(&mut self) -> Vec<(Called<'_>, &mut Option<ByteString>)> {
                let webhooks = self.webhooks.iter_mut().flatten();
                let configs = webhooks.map(|webhook| &mut webhook.client_config);
                let places = configs.map(|config| {
                    let service = config.service.as_ref();
                    let service = service.map(|s| (s.namespace.as_str(), s.name.as_str()));
                    ((service, config.url.as_deref()), &mut config.ca_bundle)
                });
                places.collect()
            }
        }
    };
}

configuration!(MutatingWebhookConfiguration);
configuration!(ValidatingWebhookConfiguration);

impl Trusting for CustomResourceDefinition {
    fn places(&mut self) -> Vec<(Called<'_>, &mut Option<ByteString>)> {
        let conversion = self.spec.conversion.as_mut();
        let webhook = conversion.and_then(|conversion| conversion.webhook.as_mut());
        let config = webhook.and_then(|webhook| webhook.client_config.as_mut());
        let places = config.map(|config| {
            let service = config.service.as_ref();
            let service = service.map(|s| (s.namespace.as_str(), s.name.as_str()));
            ((service, config.url.as_deref()), &mut config.ca_bundle)
        });
        places.into_iter().collect()
    }
}

/// What a program does with the authorities that an object names.
pub(super) trait Bundles: Send + Sync {
    /// What the places of this program's webhooks have, as the cache shows them; none if the
    /// object is not there. An error names what calls another program.
    fn known(&self, reached: &Reached) -> Result<Vec<Option<Vec<u8>>>, String>;

    /// Has these authorities trusted beside those of this program that are, and nobody else.
    fn trust<'a>(
        &'a self,
        client: &'a Client,
        reached: &'a Reached,
        wanted: &'a Wanted,
    ) -> BoxFuture<'a, Result<(), Error>>;
}

/// The authorities that are to be trusted.
pub(super) struct Wanted {
    /// Those that are kept, the newest first.
    pub(super) authorities: Vec<Trusted>,
    /// The name of all authorities of the program.
    pub(super) name: String,
    pub(super) now: sendo_world::Timestamp,
}

impl Wanted {
    /// What a place that has `known` is to have; `None` if it has just that.
    pub(super) fn change(&self, known: Option<&[u8]>) -> Option<Vec<u8>> {
        let (found, is_clean) = certificates_in(known.unwrap_or_default());
        let mut wanted = self.authorities.clone();
        for authority in &found {
            if self.is_of_program(authority) && !wanted.contains(authority) {
                wanted.push(authority.clone());
            }
        }
        let is_same = found.len() == wanted.len() && wanted.iter().all(|one| found.contains(one));
        if is_clean && is_same {
            return None;
        }
        let pem: String = wanted.iter().map(Trusted::pem).collect();
        Some(pem.into_bytes())
    }

    /// Whether an authority was made by this program, and has not expired.
    pub(super) fn is_of_program(&self, authority: &Trusted) -> bool {
        let fields = &authority.fields;
        fields.subject.common_name() == Some(&*self.name) && self.now <= fields.not_after
    }
}

/// One object, as the cache has it.
struct Watched<K: Trusting> {
    informer: Informer<K>,
    key: ObjectKey,
}

/// Watches an object by its name, and calls `changed` when it changes.
pub(super) fn watch<K: Trusting>(
    cache: &Cache,
    name: &str,
    changed: &super::own::Changed,
) -> Box<dyn Bundles> {
    let selection = Selection::fields(FieldSelector::equal("metadata.name", name));
    let informer = cache.informer::<K>(Kind::of::<K>(), selection);
    changed.on_change_of(&informer);
    Box::new(Watched {
        informer,
        key: ObjectKey::cluster(name),
    })
}

impl<K: Trusting> Bundles for Watched<K> {
    fn known(&self, reached: &Reached) -> Result<Vec<Option<Vec<u8>>>, String> {
        let Some(object) = self.informer.snapshot().get(&self.key) else {
            return Ok(Vec::new());
        };
        let mut object = (*object).clone();
        let mut known = Vec::new();
        for (called, bundle) in object.places() {
            match called {
                _ if is_called(reached, called) => {
                    known.push(bundle.as_ref().map(|bundle| bundle.0.clone()));
                }
                (Some((namespace, name)), _) => {
                    let kind = Kind::of::<K>().kind;
                    return Err(format!(
                        "the {kind} {} calls the Service {namespace}/{name}, which is another program's: give this program another name, or delete it if that one is gone",
                        self.key
                    ));
                }
                // A program that is run by hand, at another address.
                (None, _) => {}
            }
        }
        Ok(known)
    }

    fn trust<'a>(
        &'a self,
        client: &'a Client,
        reached: &'a Reached,
        wanted: &'a Wanted,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let change = move |object: &mut K| {
            for (called, bundle) in object.places() {
                if is_called(reached, called)
                    && let Some(pem) = wanted.change(bundle.as_ref().map(|b| b.0.as_slice()))
                {
                    *bundle = Some(ByteString(pem));
                }
            }
        };
        Box::pin(async move {
            match client.modify::<K, ()>(&self.key, change).await {
                Err(error) if error.is_not_found() => Ok(()),
                done => done.map(drop),
            }
        })
    }
}

/// Whether a call is one of this program's webhooks.
fn is_called(reached: &Reached, called: Called<'_>) -> bool {
    match (reached, called) {
        (Reached::Service { namespace, name }, (Some(service), _)) => {
            service == (namespace.as_str(), name.as_str())
        }
        (Reached::Url { authority }, (_, Some(url))) => {
            let rest = url.strip_prefix("https://");
            rest.and_then(|rest| rest.strip_prefix(&**authority))
                .is_some_and(|path| path.starts_with('/'))
        }
        _ => false,
    }
}
