//! Validation of ResourceSlices: the devices that a driver publishes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/resource/validation/validation.go`: `validateResourceSliceSpec`,
//!   `validateResourcePool`, `validateDevice`, `validateDeviceAttribute`, `validateDeviceTaint`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names as forms;
use serde_json::Value;

use super::names;
use crate::kinds::check::{self, Errors};
use crate::kinds::internal;
use crate::kinds::pod::affinity::{self, LabelValues};
use crate::kinds::pod::sources::driver_name;
use crate::kinds::value::Read;

/// The effects of a device taint.
pub(super) const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

const MAX_DEVICES: usize = 128;
/// The limit for slices in which a device has taints, counters or list attributes.
const MAX_COMPLEX_DEVICES: usize = 64;
const MAX_PROPERTIES: usize = 32;
const MAX_VALUE: usize = 64;
const MAX_TAINTS: usize = 16;
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];
const SCALARS: [&str; 4] = ["bool", "int", "string", "version"];
const UNSET_OR_TRUE: &str = "must be either unset or set to true";

/// Validates the spec of a slice. `old` is null on create.
pub(super) fn validate(errors: &mut Errors, spec: &Value, old: &Value) {
    let path = Path::new("spec");
    driver_name(errors, &path.child("driver"), spec.text("driver"));
    pool(errors, &path.child("pool"), spec.at("pool"));
    if !old.is_null() {
        let (new_pool, old_pool) = (spec.at("pool").at("name"), old.at("pool").at("name"));
        check::immutable(
            errors,
            &path.child("pool").child("name"),
            new_pool,
            old_pool,
        );
        for key in ["driver", "nodeName"] {
            check::immutable(errors, &path.child(key), spec.at(key), old.at(key));
        }
    }
    OF_SLICE.validate(errors, &path, spec);
    if spec.has("sharedCounters") && spec.has("devices") {
        let fault = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(Error::invalid(&path, "", fault));
    }
    let devices = spec.items("devices");
    let path = path.child("devices");
    let most = if devices.iter().any(is_complex) {
        MAX_COMPLEX_DEVICES
    } else {
        MAX_DEVICES
    };
    if devices.len() > most {
        errors.push(Error::too_many(&path, devices.len(), most));
        return;
    }
    for (i, own) in devices.iter().enumerate() {
        device(
            errors,
            &path.index(i),
            own,
            spec.is_set("perDeviceNodeSelection"),
        );
    }
    for (i, own) in devices.iter().enumerate() {
        let name = own.text("name");
        if devices[..i].iter().any(|other| other.text("name") == name) {
            errors.push(Error::duplicate(&path.index(i), name));
        }
    }
}

fn is_complex(device: &Value) -> bool {
    let has_lists = |attribute: &Value| LISTS.iter().any(|key| attribute.has(key));
    !device.items("taints").is_empty()
        || !device.items("consumesCounters").is_empty()
        || device
            .entries("attributes")
            .any(|(_, attribute)| has_lists(attribute))
}

fn pool(errors: &mut Errors, path: &Path, pool: &Value) {
    names::pool(errors, &path.child("name"), pool.text("name"));
    let slices = pool.count("resourceSliceCount");
    check::positive(errors, &path.child("resourceSliceCount"), slices);
    let generation = pool.count("generation");
    if generation < 0 {
        let fault = "must be greater than or equal to zero";
        errors.push(Error::invalid(&path.child("generation"), generation, fault));
    }
}

/// The fields with which a slice or a device selects its nodes, and the messages for their faults.
struct NodeFields {
    switches: &'static [&'static str],
    /// The number of terms that a node selector must have, if it is fixed.
    terms: Option<usize>,
    empty_name: &'static str,
    none_set: &'static str,
    several_set: &'static str,
}

const OF_SLICE: NodeFields = NodeFields {
    switches: &["allNodes", "perDeviceNodeSelection"],
    terms: Some(1),
    empty_name: "must be either unset or set to a non-empty string",
    none_set: "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
    several_set: "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set",
};

const OF_DEVICE: NodeFields = NodeFields {
    switches: &["allNodes"],
    terms: None,
    empty_name: "must not be empty",
    none_set: ONE_FIELD_OF_DEVICE,
    several_set: ONE_FIELD_OF_DEVICE,
};

const ONE_FIELD_OF_DEVICE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
     `perDeviceNodeSelection` is set to true in the ResourceSlice spec";

impl NodeFields {
    /// Validates that exactly one of the fields is set.
    fn validate(&self, errors: &mut Errors, path: &Path, own: &Value) {
        let mut set = Vec::new();
        match own.at("nodeName").as_str() {
            Some("") => {
                let path = path.child("nodeName");
                errors.push(Error::invalid(&path, "", self.empty_name));
            }
            Some(name) => {
                set.push("`nodeName`".to_owned());
                let faults = forms::dns1123_subdomain(name);
                check::faults(errors, &path.child("nodeName"), name, faults);
            }
            None => {}
        }
        if own.has("nodeSelector") {
            set.push("`nodeSelector`".to_owned());
            let (path, selector) = (path.child("nodeSelector"), own.at("nodeSelector"));
            affinity::node_selector(errors, &path, selector, LabelValues::Validated);
            let terms = selector.items("nodeSelectorTerms").len();
            if self.terms.is_some_and(|most| most != terms) {
                let terms = selector.at("nodeSelectorTerms");
                let shown = internal::bad_value("[NodeSelectorTerm", terms);
                let fault = "must have exactly one node selector term";
                let path = path.child("nodeSelectorTerms");
                errors.push(Error::invalid(&path, shown, fault));
            }
        }
        for key in self.switches {
            match own.switch(key) {
                Some(true) => set.push(format!("`{key}`")),
                Some(false) => errors.push(Error::invalid(&path.child(key), false, UNSET_OR_TRUE)),
                None => {}
            }
        }
        match set.len() {
            0 => errors.push(Error::required(path, self.none_set)),
            1 => {}
            _ => {
                let shown = format!("{{{}}}", set.join(", "));
                errors.push(Error::invalid(path, shown, self.several_set));
            }
        }
    }
}

fn device(errors: &mut Errors, path: &Path, device: &Value, selects_nodes: bool) {
    let name = device.text("name");
    check::faults(
        errors,
        &path.child("name"),
        name,
        forms::dns1123_label(name),
    );
    let count = device.entries("attributes").count() + device.entries("capacity").count();
    if count > MAX_PROPERTIES {
        let fault = format!(
            "the total number of attributes and capacities must not exceed {MAX_PROPERTIES}"
        );
        errors.push(Error::invalid(path, count, fault));
    }
    let attributes = path.child("attributes");
    for (key, own) in device.entries("attributes") {
        names::qualified(errors, &attributes, key);
        attribute(errors, &attributes.key(key), own);
    }
    let capacity = path.child("capacity");
    for (key, own) in device.entries("capacity") {
        names::qualified(errors, &capacity, key);
        if own.has("requestPolicy") && !device.is_set("allowMultipleAllocations") {
            let path = capacity.key(key).child("requestPolicy");
            errors.push(Error::forbidden(
                &path,
                "allowMultipleAllocations must be true",
            ));
        }
    }
    taints(errors, &path.child("taints"), device.items("taints"));
    device_nodes(errors, path, device, selects_nodes);
}

/// Validates a device attribute: one value, or a list of values of one type.
fn attribute(errors: &mut Errors, path: &Path, attribute: &Value) {
    for key in ["string", "version"] {
        if let Some(text) = attribute.at(key).as_str() {
            value(errors, &path.child(key), key, text);
        }
    }
    for (list, key) in [("strings", "string"), ("versions", "version")] {
        for (i, text) in check::texts(attribute, list).enumerate() {
            value(errors, &path.child(list).index(i), key, text);
        }
    }
    const ONE: &str = "exactly one value must be specified";
    let set = SCALARS
        .iter()
        .chain(&LISTS)
        .filter(|key| attribute.has(key));
    match set.count() {
        0 => errors.push(Error::invalid(path, "", ONE)),
        1 => {}
        _ => {
            let shown = internal::bad_value("DeviceAttribute", attribute);
            errors.push(Error::invalid(path, shown, ONE));
        }
    }
}

fn value(errors: &mut Errors, path: &Path, kind: &str, text: &str) {
    if kind == "version" && !is_version(text) {
        let fault = "must be a string compatible with semver.org spec 2.0.0";
        errors.push(Error::invalid(path, text, fault));
    }
    if text.len() > MAX_VALUE {
        errors.push(Error::too_long(path, MAX_VALUE));
    }
}

/// Whether a text is a version according to Semantic Versioning 2.0.0.
fn is_version(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words = |words: &str| {
        words
            .split('.')
            .all(|w| !w.is_empty() && w.chars().all(fits))
    };
    let number = |n: &str| {
        !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) && (n == "0" || !n.starts_with('0'))
    };
    let (rest, build) = text
        .split_once('+')
        .map_or((text, None), |(r, b)| (r, Some(b)));
    let (core, early) = rest
        .split_once('-')
        .map_or((rest, None), |(c, e)| (c, Some(e)));
    let early_word = |word: &str| !word.bytes().all(|b| b.is_ascii_digit()) || number(word);
    core.split('.').count() == 3
        && core.split('.').all(number)
        && early.is_none_or(|early| words(early) && early.split('.').all(early_word))
        && build.is_none_or(words)
}

fn taints(errors: &mut Errors, path: &Path, taints: &[Value]) {
    if taints.len() > MAX_TAINTS {
        errors.push(Error::too_many(path, taints.len(), MAX_TAINTS));
        return;
    }
    for (i, taint) in taints.iter().enumerate() {
        let path = path.index(i);
        check::label_name(errors, &path.child("key"), taint.text("key"));
        let value = taint.text("value");
        check::faults(
            errors,
            &path.child("value"),
            value,
            forms::label_value(value),
        );
        check::required_one_of(
            errors,
            &path.child("effect"),
            taint.text("effect"),
            &EFFECTS,
        );
    }
}

/// Validates the node fields of a device, which are set if and only if the slice has
/// `perDeviceNodeSelection`.
fn device_nodes(errors: &mut Errors, path: &Path, device: &Value, selects_nodes: bool) {
    let keys = ["nodeName", "nodeSelector", "allNodes"];
    if !selects_nodes {
        if keys.iter().any(|key| device.has(key)) {
            let fault = "`nodeName`, `nodeSelector` and `allNodes` can only be set if \
                         `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.push(Error::invalid(path, Value::Null, fault));
        }
        return;
    }
    OF_DEVICE.validate(errors, path, device);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_semver() {
        for (text, good) in [
            ("1.2.3", true),
            ("1.2.3-rc.1+build.5", true),
            ("1.2", false),
            ("01.2.3", false),
            ("1.2.3-01", false),
            ("1.2.3-", false),
            ("v1.2.3", false),
        ] {
            assert_eq!(is_version(text), good, "{text}");
        }
    }
}
