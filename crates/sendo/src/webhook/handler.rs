//! What a handler of each kind of webhook is: an `async fn`, or a type of one's own.

use std::future::Future;

use super::Admission;
use super::admission::Change;
use super::denied::Denied;
use super::review::AdmissionRequest;
use serde_json::Value;

/// Completes an object before it is stored.
///
/// Implemented by every `async fn(&mut K, Admission) -> Result<(), Denied>`; implement it for a
/// struct to keep state beside it. It is called again for what it has made, by a later request
/// or within the same one, and must leave that as it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot set defaults of `{K}`",
    label = "not a defaulter of `{K}`",
    note = "a defaulter is `async fn(&mut K, Admission) -> Result<(), sendo::webhook::Denied>` for a kind `K`, or a type with `impl Defaults<K>`",
    note = "what is held across an `.await` in it must be `Send`"
)]
pub trait Defaults<K>: Send + Sync + 'static {
    /// Sets what is left out.
    fn set_defaults(
        &self,
        object: &mut K,
        cx: Admission,
    ) -> impl Future<Output = Result<(), Denied>> + Send;
}

/// A function that borrows the object for as long as its future lives. It only spells out a
/// bound that closures and functions satisfy.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot set defaults of `{K}`",
    label = "not a defaulter of `{K}`",
    note = "a defaulter is `async fn(&mut K, Admission) -> Result<(), sendo::webhook::Denied>` for a kind `K`, or a type with `impl Defaults<K>`",
    note = "what is held across an `.await` in it must be `Send`"
)]
pub trait DefaultsFn<'a, K: 'a>: Fn(&'a mut K, Admission) -> Self::Future {
    /// What it returns.
    type Future: Future<Output = Result<(), Denied>> + Send + 'a;
}

#[diagnostic::do_not_recommend]
impl<'a, K: 'a, F, R> DefaultsFn<'a, K> for F
where
    F: Fn(&'a mut K, Admission) -> R,
    R: Future<Output = Result<(), Denied>> + Send + 'a,
{
    type Future = R;
}

impl<K, F> Defaults<K> for F
where
    K: Send + 'static,
    F: for<'a> DefaultsFn<'a, K> + Send + Sync + 'static,
{
    fn set_defaults(
        &self,
        object: &mut K,
        cx: Admission,
    ) -> impl Future<Output = Result<(), Denied>> + Send {
        self(object, cx)
    }
}

/// Decides whether an object may be changed so.
///
/// Implemented by every `async fn(Change<K>, Admission) -> Result<(), Denied>`; implement it for
/// a struct to keep state beside it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot validate `{K}`",
    label = "not a validator of `{K}`",
    note = "a validator is `async fn(Change<K>, Admission) -> Result<(), sendo::webhook::Denied>` for a kind `K`, or a type with `impl Validates<K>`",
    note = "what is held across an `.await` in it must be `Send`"
)]
pub trait Validates<K>: Send + Sync + 'static {
    /// Refuses a change, or lets it pass.
    fn validate(
        &self,
        change: Change<K>,
        cx: Admission,
    ) -> impl Future<Output = Result<(), Denied>> + Send;
}

impl<K, F, R> Validates<K> for F
where
    K: Send + 'static,
    F: Fn(Change<K>, Admission) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), Denied>> + Send,
{
    fn validate(
        &self,
        change: Change<K>,
        cx: Admission,
    ) -> impl Future<Output = Result<(), Denied>> + Send {
        self(change, cx)
    }
}

/// Decides about requests as the API server describes them: of kinds without a Rust type, of
/// several kinds at once, of connections.
///
/// Implemented by every `async fn(AdmissionRequest, Admission) -> Result<Decision, Denied>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot review requests",
    label = "not a reviewer",
    note = "a reviewer is `async fn(Arc<AdmissionRequest>, Admission) -> Result<Decision, sendo::webhook::Denied>`, or a type with `impl Reviews`",
    note = "what is held across an `.await` in it must be `Send`"
)]
pub trait Reviews: Send + Sync + 'static {
    /// Decides about a request.
    fn review(
        &self,
        request: std::sync::Arc<AdmissionRequest>,
        cx: Admission,
    ) -> impl Future<Output = Result<Decision, Denied>> + Send;
}

impl<F, R> Reviews for F
where
    F: Fn(std::sync::Arc<AdmissionRequest>, Admission) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Decision, Denied>> + Send,
{
    fn review(
        &self,
        request: std::sync::Arc<AdmissionRequest>,
        cx: Admission,
    ) -> impl Future<Output = Result<Decision, Denied>> + Send {
        self(request, cx)
    }
}

/// What becomes of a request that is not refused.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It goes on as it is.
    Allowed,
    /// It goes on with this object in place of the one that was sent. Only a mutating webhook may
    /// say so, and not of a deletion.
    Changed(Value),
}
