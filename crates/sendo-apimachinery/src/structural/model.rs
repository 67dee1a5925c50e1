//! Converts a structural schema to the [`Schema`](crate::schema::Schema) of built-in kinds.

use super::{Additional, Structural};
use crate::schema::{Field, List, ListType, MapType, Object, Raw, Schema, Shape, Types};

impl Structural {
    /// The schema of a resource in the model that built-in kinds share.
    ///
    /// Kind, version and metadata are those of every object.
    pub fn to_schema(&self, types: &Types) -> Schema {
        let mut schema = self.convert(types);
        schema.shape = Shape::Object(self.object(types, true));
        schema
    }

    fn convert(&self, types: &Types) -> Schema {
        // A type that is named beside it holds for merges.
        let shape = if self.int_or_string && self.type_name.is_empty() {
            Shape::IntOrString
        } else {
            match self.type_name.as_str() {
                "boolean" => Shape::Boolean,
                "integer" => Shape::Int64,
                "number" => Shape::Double,
                "string" => Shape::String,
                "array" => Shape::List(self.list(types)),
                "object" => self.object_or_map(types),
                _ => Shape::Raw(Raw::Json),
            }
        };
        Schema {
            default: self.default.clone(),
            allowed: self.constraints.allowed.clone(),
            nullable: self.nullable,
            map_type: match self.map_type.as_deref() {
                Some("atomic") => Some(MapType::Atomic),
                Some(_) => Some(MapType::Granular),
                None => None,
            },
            ..Schema::new(shape)
        }
    }

    fn list(&self, types: &Types) -> List {
        let items = self.items.as_ref().map(|items| items.convert(types));
        let list_type = match self.list_type.as_deref() {
            Some("set") => Some(ListType::Set),
            Some("map") => Some(ListType::Map(
                self.list_map_keys
                    .iter()
                    .map(|key| key.clone().into())
                    .collect(),
            )),
            Some(_) => Some(ListType::Atomic),
            None => None,
        };
        List {
            items: Box::new(items.unwrap_or_else(|| Schema::new(Shape::Raw(Raw::Json)))),
            list_type,
        }
    }

    fn object_or_map(&self, types: &Types) -> Shape {
        let values = match &self.additional_properties {
            Some(Additional::Schema(schema)) => schema.convert(types),
            Some(Additional::Allowed(true)) => Schema::new(Shape::Raw(Raw::Json)),
            _ => return Shape::Object(self.object(types, self.embedded_resource)),
        };
        if self.properties.is_empty() {
            return Shape::Map(Box::new(values));
        }
        Shape::Object(self.object(types, self.embedded_resource))
    }

    fn object(&self, types: &Types, is_resource: bool) -> Box<Object> {
        let own = |name: &str| is_resource && matches!(name, "apiVersion" | "kind" | "metadata");
        let mut fields: Vec<Field> = self
            .properties
            .iter()
            .filter(|(name, _)| !own(name))
            .map(|(name, schema)| Field {
                required: self.constraints.required.contains(name),
                ..Field::new(name.clone(), schema.convert(types))
            })
            .collect();
        if is_resource {
            fields.push(Field::new("apiVersion", Schema::new(Shape::String)));
            fields.push(Field::new("kind", Schema::new(Shape::String)));
            if let Some(meta) = types.id("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta") {
                fields.push(Field::new("metadata", Schema::new(Shape::Reference(meta))));
            }
        }
        let mut object = Object::new(fields);
        object.preserve_unknown_fields = self.preserve_unknown_fields;
        object.embedded_resource = self.embedded_resource;
        Box::new(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_structural_schema_becomes_one_of_the_common_model() {
        let types = Types::builtin();
        let structural = Structural::from_json(&json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "properties": {
                "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                      "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
                "m": {"type": "object", "additionalProperties": {"type": "integer"}},
                "p": {"x-kubernetes-int-or-string": true},
            },
        }}}));
        let schema = structural.to_schema(&types);
        let root = types.view(&schema);
        let spec = root.field("spec").unwrap();
        assert_eq!(
            spec.field("l").unwrap().list_type(),
            Some(&ListType::Map(vec!["k".into()]))
        );
        assert_eq!(
            spec.field("m").unwrap().key("any").unwrap().shape(),
            &Shape::Int64
        );
        assert_eq!(spec.field("p").unwrap().shape(), &Shape::IntOrString);
        assert!(root.field("metadata").unwrap().field("labels").is_some());
    }
}
