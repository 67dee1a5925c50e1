//! Cluster IPs and IP families of a Service.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidateServiceClusterIPsRelatedFields`,
//!   `validateUpgradeDowngradeClusterIPs`, `validateUpgradeDowngradeIPFamilies`
//! - `pkg/registry/core/service/storage/storage.go`: `normalizeClusterIPs`, `patchAllocatedValues`

use sendo_apimachinery::addresses::{Form, parse_ip, validate_ip};
use sendo_apimachinery::field::{Error, Path};
use serde_json::{Value, json};

use crate::kinds::check::{self, Errors};
use crate::kinds::value::{Read, Write};

const FIXED: &str = "may not change once set";

/// Whether a Service has no cluster IP.
pub(crate) fn is_headless(spec: &Value) -> bool {
    spec.items("clusterIPs") == [json!("None")]
}

/// Normalizes a new Service: if only `clusterIP` is set it becomes the first of `clusterIPs`.
pub(crate) fn one_spelling(spec: &mut Value) {
    let single = spec.text("clusterIP").to_owned();
    if !single.is_empty() && spec.items("clusterIPs").is_empty() {
        spec.set("clusterIPs", json!([single]));
    }
}

/// Normalizes a changed Service, whose client may have set only one of `clusterIP` and
/// `clusterIPs`.
pub(crate) fn one_spelling_after(spec: &mut Value, old: &Value) {
    let (single, was) = (spec.text("clusterIP").to_owned(), old.text("clusterIP"));
    if spec.items("clusterIPs").is_empty() && single == was {
        spec.copy_from("clusterIPs", old);
    }
    if single != was && spec.items("clusterIPs") == old.items("clusterIPs") {
        match single.is_empty() {
            true => spec.remove("clusterIPs"),
            false => spec.set("clusterIPs", json!([single])),
        }
    }
}

/// Restores the cluster IPs that an update leaves out.
pub(super) fn keep(spec: &mut Value, old: &Value) {
    if spec.text("clusterIP").is_empty() {
        spec.copy_from("clusterIP", old);
    }
    if spec.items("clusterIPs").is_empty() {
        spec.copy_from("clusterIPs", old);
    }
}

/// Validates cluster IPs and families. What is unchanged since `old` is not validated again.
pub(super) fn validate(errors: &mut Errors, spec: &Value, old: &Value) {
    if spec.text("type") == "ExternalName" {
        return;
    }
    let path = Path::new("spec");
    let ips: Vec<&str> = check::texts(spec, "clusterIPs").collect();
    let ips_path = path.child("clusterIPs");
    let shown = || Value::from(ips.clone());
    match (spec.text("clusterIP"), ips.first()) {
        ("", None) => {}
        ("", Some(_)) => {
            let fault = "must be empty when `clusterIP` is not specified";
            errors.push(Error::invalid(&ips_path, shown(), fault));
        }
        (_, None) => errors.push(Error::required(&ips_path, "")),
        (single, Some(first)) if single != *first => {
            errors.push(Error::invalid(
                &ips_path,
                shown(),
                "first value must match `clusterIP`",
            ));
        }
        _ => {}
    }
    families(errors, &path.child("ipFamilies"), spec);
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    let policy = spec.at("ipFamilyPolicy");
    check::optional_one_of(errors, &path.child("ipFamilyPolicy"), policy, &policies);

    let mut all_valid = true;
    for (i, ip) in ips.iter().enumerate() {
        if i == 0 && *ip == "None" {
            if ips.len() > 1 {
                all_valid = false;
                errors.push(Error::invalid(
                    &ips_path,
                    shown(),
                    "'None' must be the first and only value",
                ));
            }
            continue;
        }
        if check::texts(old, "clusterIPs").any(|old| old == *ip) {
            continue;
        }
        let faults = validate_ip(&ips_path.index(i), ip, Form::Strict);
        all_valid &= faults.is_empty();
        errors.extend(faults);
    }
    if ips.len() > 2 {
        errors.push(Error::invalid(
            &ips_path,
            shown(),
            "may only hold up to 2 values",
        ));
    }
    if !all_valid {
        return;
    }
    let is_v4 = |ip: &&str| parse_ip(ip).is_some_and(|ip| ip.is_ipv4());
    if ips.len() > 1 && (ips.iter().all(is_v4) || !ips.iter().any(is_v4)) {
        let fault = "may specify no more than one IP for each IP family";
        errors.push(Error::invalid(&ips_path, shown(), fault));
    }
    if is_headless(spec) {
        return;
    }
    for (i, (ip, family)) in ips.iter().zip(check::texts(spec, "ipFamilies")).enumerate() {
        if matches!(family, "IPv4" | "IPv6") && (family == "IPv4") != is_v4(ip) {
            let fault = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.push(Error::invalid(&ips_path.index(i), *ip, fault));
        }
    }
}

fn families(errors: &mut Errors, path: &Path, spec: &Value) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, family) in check::texts(spec, "ipFamilies").enumerate() {
        check::one_of(errors, &path.index(i), family, &["IPv4", "IPv6"]);
        if seen.contains(&family) {
            errors.push(Error::duplicate(&path.index(i), family));
        }
        seen.push(family);
    }
}

/// Validates an update: cluster IPs and families are immutable, except the secondary ones.
pub(super) fn validate_update(errors: &mut Errors, new: &Value, old: &Value) {
    if new.text("type") == "ExternalName" || old.text("type") == "ExternalName" {
        return;
    }
    let (headless, was_headless) = (is_headless(new), is_headless(old));
    if headless && was_headless {
        return;
    }
    unchanged(
        errors,
        "clusterIPs",
        "primary clusterIP",
        "secondary clusterIP",
        new,
        old,
    );
    if headless == was_headless {
        unchanged(
            errors,
            "ipFamilies",
            "primary ipFamily",
            "secondary ipFamily",
            new,
            old,
        );
    }
}

fn unchanged(errors: &mut Errors, key: &str, first: &str, second: &str, new: &Value, old: &Value) {
    let path = Path::new("spec").child(key);
    let (now, before) = (new.items(key), old.items(key));
    let shown = |key: &str| match new.at(key) {
        // Kubernetes prints an absent list as null.
        Value::Null => Value::Null,
        value => value.clone(),
    };
    // Kubernetes also reports the addresses if the number of families changed.
    let resized = if now.len() == before.len() {
        key
    } else {
        "clusterIPs"
    };
    if now.len() == before.len() {
        for (i, _) in now
            .iter()
            .zip(before)
            .enumerate()
            .filter(|(_, (new, old))| new != old)
        {
            let at = if key == "ipFamilies" { 0 } else { i };
            errors.push(Error::invalid(&path.index(at), shown(key), FIXED));
        }
        return;
    }
    if now.len() < before.len() && new.items("clusterIPs").is_empty() {
        errors.push(Error::invalid(
            &path.index(0),
            shown(key),
            format!("{first} can not be unset"),
        ));
    }
    if let (Some(now), Some(before)) = (now.first(), before.first())
        && now != before
    {
        errors.push(Error::invalid(&path.index(0), shown(resized), FIXED));
    }
    if now.len() < before.len() && now.len() == 1 && new.text("ipFamilyPolicy") != "SingleStack" {
        let fault = format!("must be set to 'SingleStack' when releasing the {second}");
        errors.push(Error::invalid(
            &Path::new("spec").child("ipFamilyPolicy"),
            shown("ipFamilyPolicy"),
            fault,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_set_one_of_the_two_fields() {
        let old = json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]});
        let cases = [
            (
                json!({"clusterIP": "10.0.0.1"}),
                json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}),
            ),
            (
                json!({"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.1"]}),
                json!({"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"]}),
            ),
            (json!({"clusterIPs": ["10.0.0.1"]}), json!({})),
        ];
        for (mut spec, expected) in cases {
            one_spelling_after(&mut spec, &old);
            assert_eq!(spec, expected);
        }
    }

    #[test]
    fn an_address_is_fixed() {
        let spec = |ip: &str| json!({"type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip]});
        let mut errors = Vec::new();
        validate_update(&mut errors, &spec("10.0.0.2"), &spec("10.0.0.1"));
        assert_eq!(
            errors[0].to_string(),
            "spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"
        );
    }
}
