//! Conversion between the versions of a kind, each by way of one of them: the hub.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::patch::overlay;
use super::review::{self, CONVERSION};
use crate::error::Result;
use crate::object::{Kind, Typed, short_type_name};

/// A version of a kind that is converted to another version, the hub, and back.
///
/// The hub is the version that the program itself works with, and best the one that is stored.
/// Objects go from one version to another by way of the hub, so that with each version comes one
/// pair of functions.
///
/// Nothing may be lost on the way from here to the hub and back, nor on the way from the hub to
/// here and back: what a version has no field for is kept in an annotation. `round_trips` of the
/// crate `sendo-test` finds what is lost.
///
/// ```
/// # use k8s_openapi::api::autoscaling::{v1, v2};
/// use sendo::Result;
/// use sendo::webhook::Convert;
/// # mod versions {
/// #     use kube::CustomResource;
/// #     use schemars::JsonSchema;
/// #     use serde::{Deserialize, Serialize};
/// #     pub mod v1 {
/// #         use super::*;
/// #         #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
/// #         #[kube(group = "example.dev", version = "v1", kind = "Bar", namespaced)]
/// #         pub struct BarSpec { pub deployment: String }
/// #     }
/// #     pub mod v1alpha1 {
/// #         use super::*;
/// #         #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
/// #         #[kube(group = "example.dev", version = "v1alpha1", kind = "Bar", namespaced, storage = false)]
/// #         pub struct BarSpec { pub deployment_name: String }
/// #     }
/// # }
/// # use versions::{v1 as new, v1alpha1 as old};
///
/// impl Convert for old::Bar {
///     type Hub = new::Bar;
///
///     fn to_hub(self) -> Result<new::Bar> {
///         let deployment = self.spec.deployment_name;
///         Ok(new::Bar { metadata: self.metadata, spec: new::BarSpec { deployment } })
///     }
///
///     fn from_hub(hub: new::Bar) -> Result<old::Bar> {
///         let deployment_name = hub.spec.deployment;
///         Ok(old::Bar { metadata: hub.metadata, spec: old::BarSpec { deployment_name } })
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be converted to another version of its kind",
    label = "without `impl Convert`",
    note = "write `impl Convert for {Self}` with the version that is the hub, or use `.defines::<{Self}>()` for a version whose fields have the same names"
)]
pub trait Convert: Typed {
    /// The version by way of which it is converted.
    type Hub: Typed;

    /// The same object as the hub has it. Fails if it cannot be expressed there.
    fn to_hub(self) -> Result<Self::Hub>;

    /// The object of the hub as this version has it.
    fn from_hub(hub: Self::Hub) -> Result<Self>;
}

/// The conversions of a program.
#[derive(Debug, Default)]
pub(crate) struct Conversions {
    kinds: BTreeMap<GroupKind, Versions>,
    problems: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKind {
    group: String,
    kind: String,
}

/// The versions of a kind.
#[derive(Debug)]
struct Versions {
    hub: Kind,
    hub_type: (TypeId, String),
    by_api_version: BTreeMap<String, Version>,
}

/// How one version is converted.
#[derive(Clone, Copy, Debug)]
struct Version {
    to_hub: fn(&Value) -> Result<AtHub>,
    from_hub: fn(Box<dyn Any>) -> Result<Value>,
}

/// An object as the hub has it, whose type is known to the functions of its kind.
struct AtHub {
    object: Box<dyn Any>,
    /// The metadata of the object that it was made of, as that one's type has it.
    metadata: Value,
}

impl Conversions {
    /// Adds a version, and its hub.
    pub(crate) fn add<K: Convert>(&mut self) {
        let (kind, hub) = (Kind::of::<K>(), Kind::of::<K::Hub>());
        let key = GroupKind {
            group: kind.group.clone(),
            kind: kind.kind.clone(),
        };
        let hub_type = (TypeId::of::<K::Hub>(), short_type_name::<K::Hub>());
        let versions = self.kinds.entry(key).or_insert_with(|| Versions {
            by_api_version: BTreeMap::from([(hub.api_version(), version_of_hub::<K::Hub>())]),
            hub: hub.clone(),
            hub_type: hub_type.clone(),
        });
        if (&hub.group, &hub.kind) != (&kind.group, &kind.kind) {
            self.problems.push(format!(
                "{kind} is converted by way of {hub}, which is another kind: a version has a version of its own kind for a hub"
            ));
        } else if versions.hub_type.0 != hub_type.0 {
            self.problems.push(format!(
                "the versions of {} are converted by way of {} and of {}: a kind has one hub",
                kind.kind, versions.hub_type.1, hub_type.1
            ));
        } else if kind.version == hub.version {
            self.problems.push(format!(
                "{kind} is its own hub, which needs no conversion: declare it with `.defines` alone"
            ));
        }
        versions
            .by_api_version
            .insert(kind.api_version(), version_of::<K>());
    }

    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Whether the versions of this kind are converted.
    pub(crate) fn converts(&self, group: &str, kind: &str) -> bool {
        let mut kinds = self.kinds.keys();
        kinds.any(|known| (&*known.group, &*known.kind) == (group, kind))
    }

    /// The hubs.
    pub(crate) fn hubs(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.values().map(|versions| &versions.hub)
    }

    /// The names of the definitions whose kinds are converted.
    pub(crate) fn definitions(&self) -> Vec<String> {
        let hubs = self.hubs();
        hubs.map(|hub| format!("{}.{}", hub.plural, hub.group))
            .collect()
    }

    /// Answers a ConversionReview.
    ///
    /// # Errors
    /// If the body is no such review.
    pub(super) fn answer(&self, body: &[u8]) -> Result<Vec<u8>, String> {
        let request = review::conversion(body)?;
        let wanted = &request.desired_api_version;
        let converted: Result<Vec<Value>, String> = request
            .objects
            .into_iter()
            .map(|object| self.convert(object, wanted))
            .collect();
        let mut response = json!({"uid": request.uid});
        match converted {
            Ok(objects) => {
                response["result"] = json!({"status": "Success"});
                response["convertedObjects"] = objects.into();
            }
            Err(message) => {
                response["result"] = json!({"status": "Failure", "message": message});
                response["convertedObjects"] = json!([]);
            }
        }
        let review =
            json!({"apiVersion": CONVERSION, "kind": "ConversionReview", "response": response});
        Ok(review.to_string().into_bytes())
    }

    /// An object in another version. Its metadata is that it had, but for what the conversion
    /// changes.
    fn convert(&self, object: Value, wanted: &str) -> Result<Value, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        if api_version == wanted {
            return Ok(object);
        }
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let key = GroupKind {
            group: group.to_owned(),
            kind: kind.clone(),
        };
        let Some(versions) = self.kinds.get(&key) else {
            return Err(format!("{kind} of {api_version} is not converted here"));
        };
        let version = |name: &str| {
            versions.by_api_version.get(name).ok_or_else(|| {
                let known: Vec<&str> = versions.by_api_version.keys().map(|k| &**k).collect();
                let known = known.join(", ");
                format!("{kind} is not converted to or from {name}, but between {known}")
            })
        };
        let (from, to) = (version(&api_version)?, version(wanted)?);
        let name = text(&object["metadata"]["name"]);
        let failed =
            |error| format!("cannot convert {kind} {name:?} of {api_version} to {wanted}: {error}");
        let at_hub = (from.to_hub)(&object).map_err(failed)?;
        let mut converted = (to.from_hub)(at_hub.object).map_err(failed)?;
        let sent = &object["metadata"];
        converted["metadata"] = overlay(sent, &at_hub.metadata, &converted["metadata"]);
        Ok(converted)
    }
}

fn version_of<K: Convert>() -> Version {
    Version {
        to_hub: |object| {
            let object = K::deserialize_from(object)?;
            let metadata = metadata(object.meta())?;
            let object = Box::new(object.to_hub()?);
            Ok(AtHub { object, metadata })
        },
        from_hub: |object| encoded(&K::from_hub(hub::<K::Hub>(object))?),
    }
}

fn version_of_hub<H: Typed>() -> Version {
    Version {
        to_hub: |object| {
            let object = H::deserialize_from(object)?;
            let metadata = metadata(object.meta())?;
            let object = Box::new(object);
            Ok(AtHub { object, metadata })
        },
        from_hub: |object| encoded(&hub::<H>(object)),
    }
}

fn hub<H: Typed>(object: Box<dyn Any>) -> H {
    *object
        .downcast()
        .expect("all versions of a kind have one hub: the declaration was checked")
}

fn encoded<K: Typed>(object: &K) -> Result<Value> {
    Ok(serde_json::to_value(object)?)
}

fn metadata(metadata: &ObjectMeta) -> Result<Value> {
    Ok(serde_json::to_value(metadata)?)
}

/// Reading of a JSON value, by reference.
trait DeserializeFrom: Sized {
    fn deserialize_from(value: &Value) -> Result<Self>;
}

impl<K: Typed> DeserializeFrom for K {
    fn deserialize_from(value: &Value) -> Result<Self> {
        Ok(K::deserialize(value)?)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::error::Error;

    pub(crate) mod new {
        use super::*;

        #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[kube(group = "example.dev", version = "v1", kind = "Bar", namespaced)]
        pub(crate) struct BarSpec {
            pub(crate) deployment: String,
        }
    }

    pub(crate) mod old {
        use super::*;

        #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[kube(
            group = "example.dev",
            version = "v1alpha1",
            kind = "Bar",
            namespaced,
            storage = false
        )]
        pub(crate) struct BarSpec {
            pub(crate) name: String,
        }
    }

    impl Convert for old::Bar {
        type Hub = new::Bar;

        fn to_hub(self) -> Result<new::Bar> {
            if self.spec.name.is_empty() {
                return Err(Error::message("a Bar without a name"));
            }
            let deployment = self.spec.name;
            let mut metadata = self.metadata;
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert("from".to_owned(), "v1alpha1".to_owned());
            let spec = new::BarSpec { deployment };
            Ok(new::Bar { metadata, spec })
        }

        fn from_hub(hub: new::Bar) -> Result<old::Bar> {
            let name = hub.spec.deployment;
            let spec = old::BarSpec { name };
            let metadata = hub.metadata;
            Ok(old::Bar { metadata, spec })
        }
    }

    fn old_bar(name: &str) -> Value {
        json!({
            "apiVersion": "example.dev/v1alpha1", "kind": "Bar",
            "metadata": {"name": "a", "newer": {"x": 1}, "annotations": {"k": "v"}},
            "spec": {"name": name},
        })
    }

    fn converted(objects: &Value, wanted: &str) -> Value {
        let mut conversions = Conversions::default();
        conversions.add::<old::Bar>();
        assert_eq!(conversions.problems(), [""; 0]);
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": wanted, "objects": objects},
        });
        let answer = conversions.answer(review.to_string().as_bytes()).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["apiVersion"], "apiextensions.k8s.io/v1");
        assert_eq!(answer["response"]["uid"], "u");
        answer["response"].clone()
    }

    #[test]
    fn objects_are_converted_by_way_of_the_hub_and_keep_metadata_that_no_type_knows() {
        let there = converted(&json!([old_bar("web")]), "example.dev/v1");
        assert_eq!(there["result"], json!({"status": "Success"}));
        let expected = json!({
            "apiVersion": "example.dev/v1", "kind": "Bar",
            "metadata": {"name": "a", "newer": {"x": 1}, "annotations": {"k": "v", "from": "v1alpha1"}},
            "spec": {"deployment": "web"},
        });
        assert_eq!(there["convertedObjects"][0], expected);
        let back = converted(&there["convertedObjects"], "example.dev/v1alpha1");
        assert_eq!(back["convertedObjects"][0]["spec"], json!({"name": "web"}));
        // One that is there already is not touched.
        let same = converted(&json!([old_bar("")]), "example.dev/v1alpha1");
        assert_eq!(same["convertedObjects"][0], old_bar(""));
    }

    #[test]
    fn what_cannot_be_converted_is_named() {
        let failure = |object: Value, wanted: &str| {
            let response = converted(&json!([old_bar("web"), object]), wanted);
            assert_eq!(response["convertedObjects"], json!([]));
            let result = &response["result"];
            assert_eq!(result["status"], "Failure");
            result["message"].as_str().unwrap().to_owned()
        };
        assert_eq!(
            failure(old_bar(""), "example.dev/v1"),
            "cannot convert Bar \"a\" of example.dev/v1alpha1 to example.dev/v1: a Bar without a name"
        );
        assert_eq!(
            failure(old_bar("web"), "example.dev/v2"),
            "Bar is not converted to or from example.dev/v2, but between example.dev/v1, example.dev/v1alpha1"
        );
        let mut other = old_bar("web");
        other["kind"] = "Foo".into();
        assert_eq!(
            failure(other, "example.dev/v1"),
            "Foo of example.dev/v1alpha1 is not converted here"
        );
        let mut broken = old_bar("web");
        broken["spec"]["name"] = 1.into();
        let why = failure(broken, "example.dev/v1");
        assert!(why.contains("invalid type: integer `1`"), "{why}");
    }
}
