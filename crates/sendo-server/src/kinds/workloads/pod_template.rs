//! Rules of PodTemplates.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidatePodTemplate`, `ValidatePodTemplateUpdate`
//! - `pkg/registry/core/podtemplate/strategy.go`

use sendo_apimachinery::field::Path;
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, check, pod, writes};

pub(super) const RULES: Rules = Rules {
    default: |object| pod::defaults::template(object.object("template")),
    prepare_for_create: |_, object| {
        writes::first_generation(object);
        pod::prepare::drop_unserved(object.object("template").object("spec"));
    },
    prepare_for_update: |_, new, old| {
        pod::prepare::drop_unserved(new.object("template").object("spec"));
        if new.at("template") != old.at("template") {
            writes::next_generation(new, old);
        }
    },
    warnings_on_create: warnings,
    warnings_on_update: |new, old| match super::is_next_generation(new, old) {
        true => warnings(new),
        false => Vec::new(),
    },
    validate: |_, object| {
        let mut errors = check::new_metadata(object, Scope::Namespaced, names::dns1123_subdomain);
        pod::validate::template(&mut errors, &Path::new("template"), object.at("template"));
        errors
    },
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        pod::validate::template(&mut errors, &Path::new("template"), new.at("template"));
        errors
    },
    ..Rules::NEUTRAL
};

fn warnings(object: &Value) -> Vec<String> {
    pod::warnings::of_template(&Path::new("template"), object.at("template"))
}
