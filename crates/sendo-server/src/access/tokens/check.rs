//! Authentication of bearer tokens.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/serviceaccount/claims.go`: `Validate`
//! - `pkg/serviceaccount/jwt.go`: `AuthenticateToken`
//! - `pkg/serviceaccount/legacy.go`: `Validate`, `patchSecretWithLastUsedDate`
//! - `staging/src/k8s.io/apiserver/pkg/authentication/authenticator/audagnostic.go`
//! - `staging/src/k8s.io/apiserver/pkg/authentication/request/bearertoken/bearertoken.go`

use std::sync::Arc;

use jiff::{Timestamp, ToSpan};
use sendo_apimachinery::{GroupResource, Meta, MetaMut, Status};
use sendo_store::{At, Entry, Transaction};
use serde_json::Value;

use super::{ISSUER, key};
use crate::access::Access;
use crate::access::rbac::quoted;
use crate::catalog::keys::Keys;
use crate::catalog::{encode, stored_form};
use crate::request::user::{self, User};

/// The issuer of legacy tokens, which are kept in Secrets.
pub(crate) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// The label with the day on which a legacy token was last used.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const INVALIDATED: &str = "service account token has been invalidated";

/// The tolerated clock skew, in seconds.
const LEEWAY: i64 = 60;

/// The user of a valid token.
#[derive(Debug)]
pub(crate) struct Authenticated {
    pub(crate) user: User,
    /// The requested audiences that the token is valid for.
    pub(crate) audiences: Vec<String>,
}

impl Access {
    /// The audiences of this server.
    pub(crate) fn audiences(&self) -> Vec<String> {
        vec![ISSUER.to_owned()]
    }

    /// Authenticates `token`, which must be valid for one of `audiences`.
    ///
    /// The error is Kubernetes' message.
    pub(crate) async fn token_user(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Authenticated, String> {
        const INVALID: &str = "invalid bearer token";
        if let Some(user) = self.credentials.given(token) {
            // A static token is valid for this server's audiences only.
            let own = self.audiences().into_iter();
            let audiences: Vec<String> = own.filter(|own| audiences.contains(own)).collect();
            return match audiences.is_empty() {
                true => Err(INVALID.to_owned()),
                false => Ok(Authenticated { user, audiences }),
            };
        }
        let issuer = key::unverified(token).map(|claims| claims["iss"].clone());
        let found = match issuer.as_ref().and_then(Value::as_str) {
            Some(ISSUER) => self.account_token(token, audiences).await,
            Some(LEGACY_ISSUER) => self.secret_token(token, audiences).await,
            _ => return Err(INVALID.to_owned()),
        };
        found.map_err(|why| format!("[{INVALID}, {why}]"))
    }

    /// Authenticates a token of the TokenRequest API.
    async fn account_token(&self, token: &str, wanted: &[String]) -> Result<Authenticated, String> {
        let claims = self.credentials.claims(token).await?;
        let audiences = audiences(&claims["aud"], wanted)?;
        self.check_time(&claims)?;
        let own = &claims["kubernetes.io"];
        let namespace = text(&own["namespace"]);
        let account = &own["serviceaccount"];
        self.check_account(namespace, account).await?;
        let mut user = User::service_account(namespace, text(&account["name"]));
        user.uid = text(&account["uid"]).to_owned();
        let id = text(&claims["jti"]);
        if !id.is_empty() {
            extra(&mut user, "credential-id", &format!("JTI={id}"));
        }
        if own["secret"].is_object() {
            self.check_bound("secrets", "secret", Some(namespace), &own["secret"])
                .await?;
        }
        if own["pod"].is_object() {
            self.check_bound("pods", "pod", Some(namespace), &own["pod"])
                .await?;
            extra(&mut user, "pod-name", text(&own["pod"]["name"]));
            extra(&mut user, "pod-uid", text(&own["pod"]["uid"]));
        }
        let node = &own["node"];
        if node.is_object() {
            // In a token of a pod the node is informational only.
            if !own["pod"].is_object() {
                self.check_bound("nodes", "node", None, node).await?;
            }
            extra(&mut user, "node-name", text(&node["name"]));
            if !text(&node["uid"]).is_empty() {
                extra(&mut user, "node-uid", text(&node["uid"]));
            }
        }
        Ok(Authenticated { user, audiences })
    }

    fn check_time(&self, claims: &Value) -> Result<(), String> {
        let now = self.world.clock().wall().as_second();
        let time = |claim: &str| claims[claim].as_i64();
        let fault = if time("nbf").is_some_and(|from| now + LEEWAY < from) {
            "service account token is not valid yet"
        } else if time("exp").is_some_and(|until| now - LEEWAY > until) {
            "service account token has expired"
        } else if time("iat").is_some_and(|at| now + LEEWAY < at) {
            "service account token is issued in the future"
        } else {
            return Ok(());
        };
        Err(fault.to_owned())
    }

    async fn check_account(&self, namespace: &str, claim: &Value) -> Result<(), String> {
        let name = text(&claim["name"]);
        let (_, account) = self
            .stored("serviceaccounts", Some(namespace), name)
            .await?
            .ok_or_else(|| {
                let accounts = GroupResource::new("", "serviceaccounts");
                Status::not_found(&accounts, name).message
            })?;
        let (found, claimed) = (Meta::new(&account).uid(), text(&claim["uid"]));
        if found != claimed {
            return Err(format!(
                "service account UID ({found}) does not match claim ({claimed})"
            ));
        }
        if self.has_gone(&account) {
            return Err(format!(
                "service account {namespace}/{name} has been deleted"
            ));
        }
        Ok(())
    }

    /// Refuses a token whose bound object was deleted or replaced by another one with the same
    /// name.
    async fn check_bound(
        &self,
        plural: &str,
        what: &str,
        namespace: Option<&str>,
        claim: &Value,
    ) -> Result<(), String> {
        let found = self.stored(plural, namespace, text(&claim["name"])).await?;
        let Some((_, object)) = found else {
            return Err(INVALIDATED.to_owned());
        };
        let (found, claimed) = (Meta::new(&object).uid(), text(&claim["uid"]));
        if found != claimed {
            return Err(format!(
                "{what} UID ({found}) does not match service account {what} ref claim ({claimed})"
            ));
        }
        if self.has_gone(&object) {
            return Err(INVALIDATED.to_owned());
        }
        Ok(())
    }

    /// Authenticates a legacy token, which is kept in a Secret.
    async fn secret_token(&self, token: &str, wanted: &[String]) -> Result<Authenticated, String> {
        let claims = self.credentials.claims(token).await?;
        let audiences = audiences(&claims["aud"], wanted)?;
        let claim = |name: &str| text(&claims[format!("kubernetes.io/serviceaccount/{name}")]);
        let (namespace, account) = (claim("namespace"), claim("service-account.name"));
        let (secret, uid) = (claim("secret.name"), claim("service-account.uid"));
        for (value, fault) in [
            (text(&claims["sub"]), "sub claim is missing"),
            (namespace, "namespace claim is missing"),
            (secret, "secretName claim is missing"),
            (account, "serviceAccountName claim is missing"),
            (uid, "serviceAccountUID claim is missing"),
        ] {
            if value.is_empty() {
                return Err(fault.to_owned());
            }
        }
        if text(&claims["sub"]) != user::service_account(namespace, account) {
            return Err("sub claim is invalid".to_owned());
        }
        let found = self.stored("secrets", Some(namespace), secret).await?;
        let found = found.filter(|(_, own)| Meta::new(own).deletion_timestamp().is_none());
        let (entry, kept) = found.ok_or("Token has been invalidated")?;
        if !is_same(text(&kept["data"]["token"]), token) {
            return Err("Token does not match server's copy".to_owned());
        }
        let (_, owner) = self
            .stored("serviceaccounts", Some(namespace), account)
            .await?
            .ok_or_else(|| {
                let accounts = GroupResource::new("", "serviceaccounts");
                Status::not_found(&accounts, account).message
            })?;
        if Meta::new(&owner).deletion_timestamp().is_some() {
            return Err(format!(
                "ServiceAccount {namespace}/{account} has been deleted"
            ));
        }
        if Meta::new(&owner).uid() != uid {
            return Err(format!(
                "ServiceAccount UID ({}) does not match claim ({uid})",
                Meta::new(&owner).uid()
            ));
        }
        self.record_use(&entry, &kept).await;
        if !text(&kept["metadata"]["labels"][INVALID_SINCE]).is_empty() {
            return Err(format!(
                "the token in secret {namespace}/{secret} for service account {namespace}/{account} has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
            ));
        }
        let mut user = User::service_account(namespace, account);
        user.uid = uid.to_owned();
        Ok(Authenticated { user, audiences })
    }

    /// Labels a Secret with the day on which its token was last used. There is only one attempt, so
    /// that the request is not delayed: the next use tries again.
    async fn record_use(&self, entry: &Arc<Entry>, secret: &Value) {
        let now = self.world.clock().wall();
        let day = |time: Timestamp| time.strftime("%Y-%m-%d").to_string();
        let tomorrow = now.checked_add(24.hours()).map(day).unwrap_or_default();
        let last = text(&secret["metadata"]["labels"][LAST_USED]);
        if last == day(now) || last == tomorrow {
            return;
        }
        let resource = &self.secrets;
        let mut used = stored_form::decode(&entry.value, entry.modified, &resource.stored);
        let mut labels = match MetaMut::new(&mut used).view().get("labels") {
            Some(Value::Object(labels)) => labels.clone(),
            _ => serde_json::Map::new(),
        };
        labels.insert(LAST_USED.to_owned(), day(now).into());
        MetaMut::new(&mut used).set("labels", Value::Object(labels));
        let put = Transaction::new()
            .unchanged(entry.key.clone(), entry.modified)
            .put(
                entry.key.clone(),
                encode(&self.types, resource, &mut used, None),
            );
        if let Err(error) = self.store.commit(put).await {
            tracing::debug!(%error, "cannot note the use of a token");
        }
    }

    /// Whether an object has been terminating for longer than the leeway.
    fn has_gone(&self, object: &Value) -> bool {
        let deleted = Meta::new(object).deletion_timestamp();
        let deleted = deleted.and_then(|at| at.parse::<Timestamp>().ok());
        deleted.is_some_and(|at| at.as_second() + LEEWAY < self.world.clock().wall().as_second())
    }

    /// Reads an object of the core group.
    async fn stored(
        &self,
        plural: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<(Arc<Entry>, Value)>, String> {
        let key = Keys::new("", plural, namespace.is_some()).object(namespace, name);
        let found = self.store.get(&key, At::Latest).await;
        let entry = found.map_err(|error| error.to_string())?.entry;
        Ok(entry.map(|entry| {
            let object = serde_json::from_slice(&entry.value).unwrap_or_default();
            (entry, object)
        }))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn extra(user: &mut User, key: &str, value: &str) {
    let key = format!("authentication.kubernetes.io/{key}");
    user.extra.insert(key, vec![value.to_owned()]);
}

/// The requested audiences that a token is valid for. A token without audiences is for this server.
fn audiences(claim: &Value, wanted: &[String]) -> Result<Vec<String>, String> {
    let own: Vec<String> = match claim {
        Value::String(one) => vec![one.clone()],
        Value::Array(several) => several.iter().map(|own| text(own).to_owned()).collect(),
        _ => vec![ISSUER.to_owned()],
    };
    let common = own.iter().filter(|own| wanted.contains(own));
    let common: Vec<String> = common.cloned().collect();
    if common.is_empty() {
        return Err(format!(
            "token audiences {} is invalid for the target audiences {}",
            quoted(&own),
            quoted(wanted)
        ));
    }
    Ok(common)
}

/// Whether the data of the Secret is this token, compared in constant time.
fn is_same(data: &str, token: &str) -> bool {
    use base64::Engine as _;
    let kept = base64::engine::general_purpose::STANDARD
        .decode(data)
        .unwrap_or_default();
    super::digest_of(&String::from_utf8_lossy(&kept)) == super::digest_of(token)
}
