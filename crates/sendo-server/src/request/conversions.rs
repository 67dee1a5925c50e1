//! Objects in other versions, which the tracking of field managers asks for.

use serde_json::Value;

/// What a webhook has converted for a request, and what it is still to convert.
///
/// Field managers are tracked by plain functions, which cannot wait for a webhook: what is not
/// there yet is noted, converted, and the tracking begins anew.
#[derive(Debug, Default)]
pub(crate) struct Conversions {
    made: Vec<Conversion>,
    wanted: Vec<(Value, String)>,
}

/// A conversion that was made, or failed.
#[derive(Debug)]
struct Conversion {
    object: Value,
    api_version: String,
    outcome: Result<Value, String>,
}

impl Conversions {
    /// The object in a version; `None` if it is still to be converted, which is noted.
    pub(crate) fn find(
        &mut self,
        object: &Value,
        api_version: &str,
    ) -> Option<Result<Value, String>> {
        let is_wanted = |own: &&Conversion| own.api_version == api_version && own.object == *object;
        if let Some(known) = self.made.iter().find(is_wanted) {
            return Some(known.outcome.clone());
        }
        self.wanted.push((object.clone(), api_version.to_owned()));
        None
    }

    /// What is still to be converted, and to which version.
    pub(crate) fn take_wanted(&mut self) -> Vec<(Value, String)> {
        std::mem::take(&mut self.wanted)
    }

    /// Keeps what came of a conversion.
    pub(crate) fn keep(
        &mut self,
        object: Value,
        api_version: String,
        outcome: Result<Value, String>,
    ) {
        self.made.push(Conversion {
            object,
            api_version,
            outcome,
        });
    }
}
