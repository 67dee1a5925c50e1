//! Takes the descriptions in OpenAPI documents from the Rust type of each kind.
//!
//! The facts about types hold no sentences; the Rust types of the same kinds
//! carry them for their own schemas. They are gathered for one document at a
//! time and dropped with it, for all of them together are some megabytes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::apimachinery::pkg::version::Info;
use schemars::{JsonSchema, SchemaGenerator};
use sendo_apimachinery::resources::Resource;
use serde_json::Value;

mod kinds;

/// Adds a type's schema and those it refers to.
type Add = fn(&mut SchemaGenerator);

fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

/// What every document refers to besides its own kinds.
const COMMON: [Add; 7] = [
    add::<meta::APIGroupList>,
    add::<meta::APIResourceList>,
    add::<meta::APIVersions>,
    add::<meta::DeleteOptions>,
    add::<meta::Patch>,
    add::<meta::Status>,
    add::<Info>,
];

/// The descriptions of some kinds, and of every type they refer to.
pub(crate) struct Descriptions {
    generator: SchemaGenerator,
}

impl Descriptions {
    /// What a document of these resources may ask for. Custom resources bring
    /// their own; of them, only what they share with others is here.
    pub(crate) fn from_resources<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Self {
        let mut generator = SchemaGenerator::default();
        COMMON.iter().for_each(|add| add(&mut generator));
        add::<k8s_openapi::api::core::v1::ConfigMap>(&mut generator);
        for resource in resources {
            add_kind(&resource.api_version(), &resource.kind, &mut generator);
            for subresource in &resource.subresources {
                add_kind(
                    &subresource.api_version(),
                    &subresource.kind,
                    &mut generator,
                );
            }
        }
        Self { generator }
    }

    /// The description of a type, or of one of its fields.
    pub(crate) fn get(&self, type_name: &str, field: Option<&str>) -> Option<String> {
        let schema = self.generator.definitions().get(type_name)?;
        let described = match field {
            Some(field) => schema.get("properties")?.get(field)?,
            None => schema,
        };
        described
            .get("description")
            .and_then(Value::as_str)
            .map(str::to_owned)
    }
}

fn add_kind(api_version: &str, kind: &str, generator: &mut SchemaGenerator) {
    let mut kinds = kinds::kinds();
    if let Some((_, _, add)) = kinds.find(|(own, name, _)| (*own, *name) == (api_version, kind)) {
        add(generator);
    }
}

#[cfg(test)]
mod tests {
    use sendo_apimachinery::openapi::Publisher;
    use sendo_apimachinery::resources::Resources;
    use sendo_apimachinery::schema::Types;

    use super::*;

    #[test]
    fn every_kind_is_described() {
        let (types, resources) = (Types::builtin(), Resources::builtin());
        for resource in resources.iter() {
            let descriptions = Descriptions::from_resources([resource]);
            let kind = types.kind(&resource.api_version(), &resource.kind).unwrap();
            let name = types.name(kind.type_id().unwrap());
            assert!(descriptions.get(&name, None).is_some(), "{name}");
        }
    }

    #[test]
    fn a_document_describes_the_types_that_its_kinds_refer_to() {
        let (types, resources) = (Types::builtin(), Resources::builtin());
        let descriptions = Descriptions::from_resources(resources.group_version("apps", "v1"));
        let publisher = Publisher {
            types: &types,
            resources: &resources,
            describe: &|name, field| descriptions.get(name, field),
        };
        let document = publisher.document("apis/apps/v1").unwrap();
        let schemas = &document["components"]["schemas"];
        for name in [
            "io.k8s.api.core.v1.Container",
            "io.k8s.api.autoscaling.v1.Scale",
            "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
        ] {
            assert!(schemas[name]["description"].is_string(), "{name}");
        }
        let image = &schemas["io.k8s.api.core.v1.Container"]["properties"]["image"];
        assert!(image["description"].is_string());
    }
}
