//! Rules of API Priority and Fairness: FlowSchemas and PriorityLevelConfigurations.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/flowcontrol/validation/validation.go`: `ValidateFlowSchemaCondition`,
//!   `ValidatePriorityLevelConfigurationCondition`

mod level;
mod schema;

use sendo_apimachinery::field::{Error, Path};
use serde_json::Value;

use super::check::{self, Errors};
use super::value::Read;

pub(super) use level::RULES as PRIORITY_LEVEL;
pub(super) use schema::RULES as FLOW_SCHEMA;

/// Validates the conditions of both kinds: each type occurs once.
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
