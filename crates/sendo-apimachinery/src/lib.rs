//! What server and tools know of Kubernetes objects: kinds, schemas, selectors, patches, codecs, Status.

pub mod addresses;
pub mod admission_expressions;
pub mod cel;
pub mod decode;
pub mod definition_schema;
pub mod duration;
pub mod field;
mod go_text;
mod group;
pub mod intstr;
pub mod jsonpath;
pub mod managed_fields;
pub mod meta;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod quantity;
pub mod quota;
pub mod resources;
pub mod schema;
pub mod selector;
pub mod status;
pub mod structural;
pub mod validation_rules;

pub use go_text::{go_float, go_json, go_quote, go_value};
pub use group::{GroupKind, GroupResource, GroupVersion, GroupVersionKind};
pub use jsonpath::JsonPath;
pub use meta::{Meta, MetaMut};
pub use quantity::Quantity;
pub use selector::{FieldSelector, LabelSelector};
pub use status::Status;
