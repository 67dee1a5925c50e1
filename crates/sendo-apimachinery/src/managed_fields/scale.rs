//! Ownership of the number of replicas, carried between an object and its Scale.

use serde_json::Value;

use super::entries::{Entries, Entry};
use super::set::{FieldPath, FieldSet};

/// The version of Scale, whatever the object's own.
const SCALE_VERSION: &str = "autoscaling/v1";

/// What an object's managers have of its Scale, and back.
///
/// A Scale is written by its own [`FieldManager`](super::FieldManager), which
/// knows only one field of the object behind it: the number of replicas.
pub struct ScaleManagers<'a> {
    /// `metadata.managedFields` of the object.
    pub managers: Option<&'a Value>,
    /// The version that the Scale is written through.
    pub api_version: &'a str,
    /// Where a version of the object has its number of replicas. `None` if the
    /// version is not known; an empty path if it has no Scale.
    pub replicas: &'a dyn Fn(&str) -> Option<FieldPath>,
}

impl ScaleManagers<'_> {
    /// `metadata.managedFields` of the Scale.
    ///
    /// # Errors
    /// If the object's managers cannot be read.
    pub fn to_scale(&self) -> Result<Option<Value>, String> {
        let mut scale = Entries::default();
        for (id, entry) in Entries::decode(self.managers)?.by_manager {
            let path = (self.replicas)(&entry.api_version).unwrap_or_default();
            if !path.0.is_empty() && entry.fields.contains(&path.0) {
                let entry = Entry {
                    api_version: SCALE_VERSION.to_owned(),
                    fields: FieldSet::from_iter([in_scale()]),
                    time: entry.time,
                };
                scale.by_manager.insert(id, entry);
            }
        }
        Ok(scale.encode())
    }

    /// `metadata.managedFields` of the object after a write of the Scale, whose
    /// own are `scale`. Who takes the number through the Scale has no time.
    ///
    /// # Errors
    /// If either list cannot be read.
    pub fn to_object(&self, scale: Option<&Value>) -> Result<Option<Value>, String> {
        let mut scale = Entries::decode(scale)?;
        let mut object = Entries::default();
        for (id, mut entry) in Entries::decode(self.managers)?.by_manager {
            let Some(path) = (self.replicas)(&entry.api_version) else {
                continue;
            };
            let has_number = !path.0.is_empty() && entry.fields.contains(&path.0);
            if has_number && scale.by_manager.remove(&id).is_none() {
                entry.fields.subtract(&FieldSet::from_iter([path]));
                if entry.fields.is_empty() {
                    continue;
                }
            }
            object.by_manager.insert(id, entry);
        }
        let number = FieldSet::from_iter((self.replicas)(self.api_version));
        for (id, entry) in scale.by_manager {
            if entry.fields.contains(&in_scale().0) {
                let entry = Entry {
                    api_version: self.api_version.to_owned(),
                    fields: number.clone(),
                    time: None,
                };
                object.by_manager.insert(id, entry);
            }
        }
        Ok(object.encode())
    }
}

fn in_scale() -> FieldPath {
    FieldPath::of_fields(["spec", "replicas"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(manager: &str, operation: &str, subresource: &str, fields: Value) -> Value {
        let mut entry = json!({
            "manager": manager, "operation": operation, "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        });
        if !subresource.is_empty() {
            entry["subresource"] = subresource.into();
        }
        entry
    }

    fn at_replicas(api_version: &str) -> Option<FieldPath> {
        (api_version == "apps/v1").then(in_scale)
    }

    #[test]
    fn the_number_goes_from_its_manager_to_who_scales() {
        let live = json!([entry(
            "a",
            "Apply",
            "",
            json!({"f:spec": {"f:paused": {}, "f:replicas": {}}})
        )]);
        let managers = ScaleManagers {
            managers: Some(&live),
            api_version: "apps/v1",
            replicas: &at_replicas,
        };
        let scale = managers.to_scale().unwrap().unwrap();
        assert_eq!(scale[0]["apiVersion"], "autoscaling/v1");
        assert_eq!(scale[0]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));

        let mut taken = scale.clone();
        taken[0]["manager"] = "hpa".into();
        taken[0]["operation"] = "Update".into();
        taken[0]["subresource"] = "scale".into();
        let object = managers.to_object(Some(&taken)).unwrap().unwrap();
        assert_eq!(
            object,
            json!([
                entry("a", "Apply", "", json!({"f:spec": {"f:paused": {}}})),
                entry(
                    "hpa",
                    "Update",
                    "scale",
                    json!({"f:spec": {"f:replicas": {}}})
                ),
            ])
        );
    }

    #[test]
    fn a_number_that_nobody_takes_stays() {
        let live = json!([entry(
            "a",
            "Apply",
            "",
            json!({"f:spec": {"f:replicas": {}}})
        )]);
        let managers = ScaleManagers {
            managers: Some(&live),
            api_version: "apps/v1",
            replicas: &at_replicas,
        };
        let scale = managers.to_scale().unwrap();
        assert_eq!(
            managers.to_object(scale.as_ref()).unwrap(),
            Some(live.clone())
        );
    }
}
