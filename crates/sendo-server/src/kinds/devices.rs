//! Devices that pods can claim: the kinds of `resource.k8s.io`.

use serde_json::{Value, json};

use super::value::{Read, Write};
use super::{Rules, UnknownFields, writes};

pub(super) const DEVICE_CLASS: Rules = Rules {
    prepare_for_create: |_, class| writes::first_generation(class),
    prepare_for_update: |_, new, old| {
        if new.at("spec") != old.at("spec") {
            writes::next_generation(new, old);
        }
    },
    delete_returns_object: true,
    ..Rules::NEUTRAL
};

pub(super) const CLAIM: Rules = Rules {
    default: |claim| default_devices(claim.object("spec")),
    prepare_for_create: |_, claim| claim.set("status", json!({})),
    prepare_for_update: |_, new, old| new.copy_from("status", old),
    prepare_for_status_update: writes::status_alone,
    delete_returns_object: true,
    ..Rules::NEUTRAL
};

pub(super) const CLAIM_TEMPLATE: Rules = Rules {
    default: |template| default_devices(template.object("spec").object("spec")),
    delete_returns_object: true,
    ..Rules::NEUTRAL
};

pub(super) const SLICE: Rules = Rules {
    prepare_for_create: |_, slice| writes::first_generation(slice),
    prepare_for_update: |_, new, old| {
        if new.at("spec") != old.at("spec") {
            writes::next_generation(new, old);
        }
    },
    selectable_fields: &[
        ("spec.driver", |slice| {
            slice.at("spec").text("driver").to_owned()
        }),
        ("spec.nodeName", |slice| {
            slice.at("spec").text("nodeName").to_owned()
        }),
    ],
    unknown_fields: UnknownFields::NotSupportedForKind("resource.k8s.io/v1, Kind=ResourceSlice"),
    ..Rules::NEUTRAL
};

fn default_devices(spec: &mut Value) {
    let Some(devices) = spec.existing("devices") else {
        return;
    };
    for request in devices.items_mut("requests") {
        if let Some(exactly) = request.existing("exactly") {
            default_request(exactly);
        }
        request
            .items_mut("firstAvailable")
            .iter_mut()
            .for_each(default_request);
    }
}

fn default_request(request: &mut Value) {
    request.default_if_zero("allocationMode", "ExactCount");
    if request.text("allocationMode") == "ExactCount" {
        request.default_if_zero("count", 1);
    }
    for toleration in request.items_mut("tolerations") {
        toleration.default_if_zero("operator", "Equal");
    }
}
