//! The webhook: what is filled in before a Tenant is stored.

use sendo::ObjectExt;
use sendo::webhook::{Admission, Denied};

use crate::api::Tenant;

/// Gives a tenant without a prefix one of its name.
///
/// It follows from another field, so that the definition of the kind cannot have it as a default.
pub(crate) async fn set_defaults(tenant: &mut Tenant, _cx: Admission) -> Result<(), Denied> {
    let is_named = !tenant.name().is_empty(); // a name that is generated comes later
    if tenant.spec.namespace_prefix.is_empty() && is_named {
        tenant.spec.namespace_prefix = format!("{}-", tenant.name());
    }
    Ok(())
}
