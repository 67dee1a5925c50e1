//! FlowSchemas and PriorityLevelConfigurations: fairness among requests.

mod level;
mod schema;

use sendo_apimachinery::field::{Error, Path};
use serde_json::Value;

use super::check::{self, Errors};
use super::value::Read;

pub(super) use level::RULES as PRIORITY_LEVEL;
pub(super) use schema::RULES as FLOW_SCHEMA;

/// Conditions of both kinds: each type once.
fn conditions(errors: &mut Errors, object: &Value) {
    let path = Path::new("status").child("conditions");
    let mut seen: Vec<&str> = Vec::new();
    for (i, condition) in object.at("status").items("conditions").iter().enumerate() {
        let (kind, path) = (condition.text("type"), path.index(i).child("type"));
        if seen.contains(&kind) {
            errors.push(Error::duplicate(&path, kind));
        }
        seen.push(kind);
        check::required(errors, &path, kind);
    }
}
