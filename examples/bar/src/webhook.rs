//! The webhook: one Deployment name, one Bar.

use sendo::webhook::{Admission, Change, Denied};
use sendo::{Index, ObjectExt, ObjectKey};

use crate::Bar;

/// Bars by the Deployment that they name.
pub(crate) static BY_DEPLOYMENT: Index<Bar, ObjectKey> =
    Index::new("by-deployment", |bar| Some(bar.deployment_key()));

/// Refuses a Bar that names the Deployment of another one.
///
/// It looks into the cache, which may be behind: of two Bars that are created at the same moment
/// both may pass. So the reconcile handles the loser too (`ErrResourceExists`), and this only
/// tells the user earlier.
pub(crate) async fn validate(change: Change<Bar>, cx: Admission) -> Result<(), Denied> {
    let Some(bar) = change.new() else {
        return Ok(());
    };
    if change
        .old()
        .is_some_and(|old| old.spec.deployment == bar.spec.deployment)
    {
        return Ok(()); // a loser can still be changed otherwise
    }
    let same = cx.list::<Bar>().by(&BY_DEPLOYMENT, bar.deployment_key());
    match same.filter(|other| other.name() != bar.name()).is_empty() {
        true => Ok(()),
        false => Err(Denied::field("spec.deployment").duplicate(&*bar.spec.deployment)),
    }
}
