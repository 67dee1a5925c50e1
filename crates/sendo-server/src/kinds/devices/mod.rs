//! Rules of `resource.k8s.io`: DeviceClasses, ResourceClaims, ResourceClaimTemplates and
//! ResourceSlices.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/resource/validation/validation.go`: `ValidateDeviceClass`, `ValidateResourceClaim`,
//!   `ValidateResourceClaimTemplate`, `ValidateResourceSlice`
//! - `pkg/apis/resource/v1/defaults.go`
//! - `pkg/apis/resource/v1/conversion.go`
//! - `pkg/registry/resource/deviceclass/strategy.go`
//! - `pkg/registry/resource/resourceclaim/strategy.go`
//! - `pkg/registry/resource/resourceclaimtemplate/strategy.go`
//! - `pkg/registry/resource/resourceslice/strategy.go`

mod claim;
mod names;
mod slice;

use sendo_apimachinery::field::Path;
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names as forms;
use serde_json::{Value, json};

use super::check;
use super::pod::sources;
use super::value::{Read, Write};
use super::{Rules, UnknownFields, writes};

pub(super) const DEVICE_CLASS: Rules = Rules {
    prepare_for_create: |_, class| writes::first_generation(class),
    prepare_for_update: |_, new, old| spec_moves_generation(new, old),
    validate: |_, class| {
        let mut errors = check::new_metadata(class, Scope::Cluster, forms::dns1123_subdomain);
        claim::class(&mut errors, &Path::new("spec"), class.at("spec"));
        errors
    },
    validate_update: |_, new, old| {
        let mut errors = check::new_metadata(new, Scope::Cluster, forms::dns1123_subdomain);
        errors.extend(check::changed_metadata(new, old));
        claim::class(&mut errors, &Path::new("spec"), new.at("spec"));
        errors
    },
    ..Rules::NEUTRAL
};

pub(super) const CLAIM: Rules = Rules {
    default: |claim| default_devices(claim.object("spec")),
    prepare_for_create: |_, claim| claim.set("status", json!({})),
    prepare_for_update: |_, new, old| new.copy_from("status", old),
    prepare_for_status_update: writes::status_alone,
    validate: |_, claim| {
        let mut errors = check::new_metadata(claim, Scope::Namespaced, forms::dns1123_subdomain);
        claim::devices(&mut errors, &Path::new("spec"), claim.at("spec"));
        errors
    },
    validate_update: |_, new, old| {
        let mut errors = check::new_metadata(new, Scope::Namespaced, forms::dns1123_subdomain);
        errors.extend(check::changed_metadata(new, old));
        let path = Path::new("spec");
        check::immutable(&mut errors, &path, new.at("spec"), old.at("spec"));
        errors
    },
    validate_status_update: |_, new, old| check::changed_metadata(new, old),
    ..Rules::NEUTRAL
};

pub(super) const CLAIM_TEMPLATE: Rules = Rules {
    default: |template| default_devices(template.object("spec").object("spec")),
    validate: |_, template| {
        let mut errors = check::new_metadata(template, Scope::Namespaced, forms::dns1123_subdomain);
        let (path, spec) = (Path::new("spec"), template.at("spec"));
        let metadata = path.child("metadata");
        sources::template_metadata(&mut errors, &metadata, spec.at("metadata"));
        claim::devices(&mut errors, &path.child("spec"), spec.at("spec"));
        errors
    },
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        let path = Path::new("spec");
        check::immutable(&mut errors, &path, new.at("spec"), old.at("spec"));
        errors
    },
    ..Rules::NEUTRAL
};

pub(super) const SLICE: Rules = Rules {
    prepare_for_create: |_, slice| writes::first_generation(slice),
    prepare_for_update: |_, new, old| spec_moves_generation(new, old),
    validate: |_, slice| {
        let mut errors = check::new_metadata(slice, Scope::Cluster, forms::dns1123_subdomain);
        slice::validate(&mut errors, slice.at("spec"), &Value::Null);
        errors
    },
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        slice::validate(&mut errors, new.at("spec"), old.at("spec"));
        errors
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

fn spec_moves_generation(new: &mut Value, old: &Value) {
    if new.at("spec") != old.at("spec") {
        writes::next_generation(new, old);
    }
}

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
