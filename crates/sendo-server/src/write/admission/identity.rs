//! Who asks for a certificate: not what the request says, but who sent it.

use serde_json::Value;

use crate::call::Call;
use crate::kinds::value::Write;

/// Writes the sender into a new signing request.
pub(super) fn admit(call: &Call<'_>, request: &mut Value) {
    let user = &call.request.user;
    let spec = request.object("spec");
    spec.set("username", user.name.as_str());
    spec.set("uid", user.uid.as_str());
    spec.set("groups", user.groups.clone());
    match user.extra.is_empty() {
        true => spec.remove("extra"),
        false => spec.set("extra", serde_json::json!(user.extra)),
    }
}
