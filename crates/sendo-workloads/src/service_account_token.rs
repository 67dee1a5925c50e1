//! Fills Secrets of type `kubernetes.io/service-account-token` for the account
//! that they name, and deletes them when it is deleted.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/serviceaccount/tokens_controller.go`: `syncSecret`, `secretUpdateNeeded`,
//!   `generateTokenIfNeeded`
//! - `pkg/serviceaccount/legacy.go`: `LegacyClaims`

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use sendo::cache::{FieldSelector, Selection};
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{Action, Context, Controller, Error, ObjectExt, ObjectKey, Reader, Reconcile, Result};
use serde_json::{Value, json};

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Signs tokens with the cluster's key: takes claims, returns a token.
#[derive(Clone)]
pub struct TokenSigner(Arc<Sign>);

type Sign = dyn Fn(Value) -> BoxFuture<'static, Result<String, String>> + Send + Sync;

impl TokenSigner {
    /// A signer from a function. If it fails, the error is reported and retried.
    pub fn new<F>(sign: impl Fn(Value) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, String>> + Send + 'static,
    {
        TokenSigner(Arc::new(move |claims| Box::pin(sign(claims))))
    }
}

impl Default for TokenSigner {
    /// A signer without a key, which always fails.
    fn default() -> Self {
        TokenSigner::new(|_| async { Err("there is no key to sign tokens with".to_owned()) })
    }
}

impl fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSigner")
    }
}

/// The controller of tokens in Secrets. `authority`, in PEM, is stored with each of them.
pub fn controller(signer: TokenSigner, authority: &str) -> Controller {
    let tokens = Selection::fields(FieldSelector::equal("type", TYPE));
    Controller::new::<Secret>()
        .named("serviceaccount-token-controller")
        .selecting(tokens)
        .watches(kind::<ServiceAccount>(), map_object(tokens_of))
        .reconcile(TokenReconciler {
            signer,
            authority: authority.to_owned(),
        })
}

fn annotation<'a>(secret: &'a Secret, name: &str) -> &'a str {
    let annotations = secret.metadata.annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(name))
        .map_or("", String::as_str)
}

/// The token Secrets of a service account.
fn tokens_of(account: &ServiceAccount, cx: &Reader) -> Vec<ObjectKey> {
    let secrets = cx.list::<Secret>();
    secrets
        .filter(|secret| {
            secret.namespace() == account.namespace()
                && annotation(secret, ACCOUNT_NAME) == account.name()
        })
        .keys()
}

struct TokenReconciler {
    signer: TokenSigner,
    authority: String,
}

impl Reconcile<Secret> for TokenReconciler {
    async fn reconcile(&self, secret: Arc<Secret>, cx: Context) -> Result<Action> {
        if secret.is_being_deleted() {
            return Ok(Action::done());
        }
        let (name, uid) = (
            annotation(&secret, ACCOUNT_NAME),
            annotation(&secret, ACCOUNT_UID),
        );
        let owner = ObjectKey::namespaced(secret.namespace().unwrap_or_default(), name);
        let is_referenced =
            |account: &ServiceAccount| uid.is_empty() || account.uid().as_str() == uid;
        let known = cx
            .get::<ServiceAccount>(&owner)
            .filter(|account| is_referenced(account));
        let account = match known {
            Some(account) => Some(ServiceAccount::clone(&account)),
            // The cache may not have a new account yet.
            None => cx
                .live()
                .get::<ServiceAccount>(&owner)
                .await?
                .filter(is_referenced),
        };
        let Some(account) = account else {
            return match cx.client().delete(&*secret).await {
                Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
                _ => Ok(Action::done()),
            };
        };
        let Some(filled) = self.fill(&secret, &account).await? else {
            return Ok(Action::done());
        };
        match cx.client().update(&filled).await {
            // The Secret has changed or was deleted meanwhile; that event starts another reconcile.
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
            _ => Ok(Action::done()),
        }
    }
}

impl TokenReconciler {
    /// The Secret with the missing data filled in; `None` if nothing is missing.
    async fn fill(&self, secret: &Secret, account: &ServiceAccount) -> Result<Option<Secret>> {
        let namespace = secret.namespace().unwrap_or_default().to_owned();
        let mut filled = secret.clone();
        let data = filled.data.get_or_insert_default();
        let is_missing = |data: &std::collections::BTreeMap<String, ByteString>, name: &str| {
            data.get(name).is_none_or(|bytes| bytes.0.is_empty())
        };
        let mut changed = false;
        let authority = self.authority.as_bytes();
        if !authority.is_empty() && data.get("ca.crt").is_none_or(|own| own.0 != authority) {
            data.insert("ca.crt".to_owned(), ByteString(authority.to_vec()));
            changed = true;
        }
        if is_missing(data, "namespace") {
            let bytes = namespace.clone().into_bytes();
            data.insert("namespace".to_owned(), ByteString(bytes));
            changed = true;
        }
        if is_missing(data, "token") {
            let claims = claims(&namespace, account, secret.name());
            let token = (self.signer.0)(claims).await.map_err(Error::message)?;
            data.insert("token".to_owned(), ByteString(token.into_bytes()));
            changed = true;
        }
        if !changed {
            return Ok(None);
        }
        let annotations = filled.metadata.annotations.get_or_insert_default();
        annotations.insert(ACCOUNT_NAME.to_owned(), account.name().to_owned());
        annotations.insert(ACCOUNT_UID.to_owned(), account.uid().as_str().to_owned());
        Ok(Some(filled))
    }
}

/// The claims of a token in a Secret. It has neither expiry nor audience: it is valid as long as
/// its Secret exists.
fn claims(namespace: &str, account: &ServiceAccount, secret: &str) -> Value {
    let name = account.name();
    json!({
        "iss": "kubernetes/serviceaccount",
        "sub": format!("system:serviceaccount:{namespace}:{name}"),
        "kubernetes.io/serviceaccount/namespace": namespace,
        "kubernetes.io/serviceaccount/secret.name": secret,
        "kubernetes.io/serviceaccount/service-account.name": name,
        "kubernetes.io/serviceaccount/service-account.uid": account.uid().as_str(),
    })
}
