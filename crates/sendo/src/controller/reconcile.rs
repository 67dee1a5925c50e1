//! The reconcile contract: functions and structs alike.

use std::future::Future;
use std::sync::Arc;

use crate::context::Context;
use crate::controller::Action;
use crate::error::Result;
use crate::object::ObjectKey;

/// Brings the world in line with an object.
///
/// Called with the object as the cache has it; one that is gone is
/// [`gone`](Reconcile::gone). Never called twice at once for one key. Implemented
/// by every `async fn(Arc<K>, Context) -> Result<Action>`; implement it for a
/// struct to keep state beside it.
///
/// The future may be dropped at any await if the time-out or the manager's
/// shutdown deadline passes; the key is then reconciled again.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot reconcile `{K}`",
    label = "not a reconciler of `{K}`",
    note = "a reconciler is `async fn(Arc<{K}>, Context) -> sendo::Result<Action>`, or a type with `impl Reconcile<{K}>`"
)]
pub trait Reconcile<K>: Send + Sync + 'static {
    /// Reconciles one object.
    fn reconcile(&self, object: Arc<K>, cx: Context)
    -> impl Future<Output = Result<Action>> + Send;

    /// Forgets what is kept in this program about an object that is no more, such as its metrics.
    /// Does nothing by default.
    ///
    /// Called when a key comes up under which the cache has no object: after a deletion that the
    /// controller's predicate lets pass, and for whatever else a handler names. If another object
    /// has taken the name meanwhile, that one is reconciled instead. It is not called for objects
    /// that were deleted while the program did not run: clean-up of anything that outlives the
    /// program needs a finalizer, see
    /// [`Context::finalizer`]. An error is retried as one of
    /// [`reconcile`](Reconcile::reconcile) is.
    fn gone(&self, key: ObjectKey, cx: Context) -> impl Future<Output = Result<()>> + Send {
        let _ = (key, cx);
        async { Ok(()) }
    }
}

impl<K, F, R> Reconcile<K> for F
where
    K: Send + Sync + 'static,
    F: Fn(Arc<K>, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action>> + Send,
{
    fn reconcile(
        &self,
        object: Arc<K>,
        cx: Context,
    ) -> impl Future<Output = Result<Action>> + Send {
        self(object, cx)
    }
}

/// Like [`Reconcile`], for a controller with keys of its own.
///
/// Called for every key that a handler gave, whether or not anything exists
/// under it. Implemented by every `async fn(Key, Context) -> Result<Action>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot reconcile keys of type `{Q}`",
    label = "not a reconciler of `{Q}`",
    note = "a reconciler of keys is `async fn({Q}, Context) -> sendo::Result<Action>`, or a type with `impl ReconcileKey<{Q}>`"
)]
pub trait ReconcileKey<Q>: Send + Sync + 'static {
    /// Reconciles one key.
    fn reconcile(&self, key: Q, cx: Context) -> impl Future<Output = Result<Action>> + Send;
}

impl<Q, F, R> ReconcileKey<Q> for F
where
    Q: Send + 'static,
    F: Fn(Q, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action>> + Send,
{
    fn reconcile(&self, key: Q, cx: Context) -> impl Future<Output = Result<Action>> + Send {
        self(key, cx)
    }
}
