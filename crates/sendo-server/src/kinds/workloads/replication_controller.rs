//! ReplicationControllers.

use serde_json::Value;

use crate::kinds::value::{Read, Write};
use crate::kinds::{Dependents, NAMESPACE, Rules, UnknownFields, pod, writes};

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: super::create,
    prepare_for_update: super::update,
    prepare_for_status_update: writes::status_with_metadata,
    selectable_fields: &[NAMESPACE, ("status.replicas", super::replicas_text)],
    unknown_fields: UnknownFields::NotSupported,
    dependents: Dependents::Orphaned,
    ..Rules::NEUTRAL
};

/// Selector and labels follow from the template's labels where they are left out.
fn default(controller: &mut Value) {
    let template = controller.at("spec").at("template");
    let labels = template.at("metadata").at("labels").clone();
    if labels.is_object() {
        if controller.at("spec").entries("selector").next().is_none() {
            controller.object("spec").set("selector", labels.clone());
        }
        if controller.at("metadata").entries("labels").next().is_none() {
            controller.object("metadata").set("labels", labels);
        }
    }
    let spec = controller.object("spec");
    spec.default_to("replicas", 1);
    if let Some(template) = spec.existing("template") {
        pod::defaults::template(template);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_of_the_template_select_and_mark() {
        let template = json!({"metadata": {"labels": {"a": "b"}}});
        let mut controller =
            json!({"metadata": {"labels": {"x": "y"}}, "spec": {"template": template}});
        default(&mut controller);
        assert_eq!(controller["spec"]["selector"], json!({"a": "b"}));
        assert_eq!(controller["metadata"]["labels"], json!({"x": "y"}));
    }
}
