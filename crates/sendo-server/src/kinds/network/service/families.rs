//! Allocation of `ipFamilyPolicy` and `ipFamilies`, as far as the client leaves them unset.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/core/service/storage/alloc.go`: `initIPFamilyFields`,
//!   `isMatchingPreferDualStackClusterIPFields`

use sendo_apimachinery::addresses::parse_ip;
use sendo_apimachinery::field::{Error, Path};
use serde_json::{Value, json};

use super::addresses;
use crate::kinds::check::{self, Errors};
use crate::kinds::value::{Read, Write};

const FOUR: &str = "IPv4";
const SIX: &str = "IPv6";

/// The IP family of an address.
fn family_of(ip: &str) -> &'static str {
    match parse_ip(ip) {
        Some(ip) if ip.to_canonical().is_ipv4() => FOUR,
        _ => SIX,
    }
}

fn other(family: &str) -> &'static str {
    if family == FOUR { SIX } else { FOUR }
}

/// Sets `ipFamilyPolicy` and `ipFamilies` of a Service with cluster IPs, or returns why they cannot
/// be satisfied.
///
/// `configured` are the families of the cluster, the primary one first. `old` is the Service before
/// an update.
pub(crate) fn settle(
    spec: &mut Value,
    old: Option<&Value>,
    configured: &[&str],
) -> Result<(), Errors> {
    if spec.text("type") == "ExternalName" {
        return Ok(());
    }
    // A Service with `PreferDualStack` keeps the families it was given, even if the cluster's
    // families have changed.
    if old.is_some_and(|old| is_same_preference(spec, old)) {
        return Ok(());
    }
    settle_policy(spec, old);
    let mut errors = Errors::new();
    addresses::validate(&mut errors, spec, old.unwrap_or(&Value::Null));
    if !errors.is_empty() {
        return Err(errors);
    }
    if let Some(old) = old {
        release_second(&mut errors, spec, old);
    }
    one_family_policy(&mut errors, spec);
    families_of_addresses(&mut errors, spec, configured);
    if !errors.is_empty() {
        return Err(errors);
    }
    let preferred = configured.first().copied().unwrap_or(FOUR);
    let wants_two = spec.text("ipFamilyPolicy") != "SingleStack";
    if is_for_unknown_endpoints(spec) {
        // A headless Service without a selector has endpoints that its owner manages, of any
        // family.
        complete(spec, preferred, wants_two);
        return Ok(());
    }
    let path = Path::new("spec");
    if spec.text("ipFamilyPolicy") == "RequireDualStack" && configured.len() < 2 {
        errors.push(Error::invalid(
            &path.child("ipFamilyPolicy"),
            "RequireDualStack",
            "this cluster is not configured for dual-stack services",
        ));
    }
    for (i, family) in check::texts(spec, "ipFamilies").enumerate() {
        if !configured.contains(&family) {
            errors.push(Error::invalid(
                &path.child("ipFamilies").index(i),
                family,
                "not configured on this cluster",
            ));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    complete(spec, preferred, wants_two && configured.len() == 2);
    Ok(())
}

/// Whether an update leaves a `PreferDualStack` Service and its families unchanged.
pub(crate) fn is_same_preference(new: &Value, old: &Value) -> bool {
    let prefers = |spec: &Value| spec.text("ipFamilyPolicy") == "PreferDualStack";
    prefers(new)
        && (prefers(old) || !old.has("ipFamilyPolicy"))
        && ["type", "clusterIPs", "ipFamilies"]
            .iter()
            .all(|key| new.at(key) == old.at(key))
}

fn is_for_unknown_endpoints(spec: &Value) -> bool {
    spec.text("clusterIP") == "None" && spec.entries("selector").next().is_none()
}

/// Sets an unset policy such that an update never changes a Service between single-stack and
/// dual-stack.
fn settle_policy(spec: &mut Value, old: Option<&Value>) {
    if spec.has("ipFamilyPolicy") {
        return;
    }
    let policy = match old.map(|old| old.text("ipFamilyPolicy")) {
        Some(policy) if !policy.is_empty() => policy,
        _ if is_for_unknown_endpoints(spec) => "RequireDualStack",
        _ => "SingleStack",
    };
    spec.set("ipFamilyPolicy", policy);
}

/// Releases the secondary family if the policy changes to `SingleStack`. Nothing else releases it.
fn release_second(errors: &mut Errors, spec: &mut Value, old: &Value) {
    let path = Path::new("spec").child("ipFamilyPolicy");
    if spec.text("ipFamilyPolicy") == "SingleStack" {
        for key in ["clusterIPs", "ipFamilies"] {
            if spec.items(key).len() > 1 && spec.at(key) == old.at(key) {
                spec.set(key, vec![spec.items(key)[0].clone()]);
            }
        }
        return;
    }
    for (key, what) in [
        ("clusterIPs", "secondary cluster IP"),
        ("ipFamilies", "secondary IP family"),
    ] {
        let count = spec.items(key).len();
        if count > 0 && count < old.items(key).len() {
            let fault = format!("must be 'SingleStack' to release the {what}");
            errors.push(Error::invalid(
                &path,
                spec.at("ipFamilyPolicy").clone(),
                fault,
            ));
        }
    }
}

fn one_family_policy(errors: &mut Errors, spec: &Value) {
    if spec.text("ipFamilyPolicy") != "SingleStack" {
        return;
    }
    let path = Path::new("spec").child("ipFamilyPolicy");
    for (key, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if spec.items(key).len() == 2 {
            let fault = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            );
            errors.push(Error::invalid(&path, "SingleStack", fault));
        }
    }
}

/// Derives families from the requested cluster IPs.
fn families_of_addresses(errors: &mut Errors, spec: &mut Value, configured: &[&str]) {
    let path = Path::new("spec").child("clusterIPs");
    let ips: Vec<String> = check::texts(spec, "clusterIPs")
        .map(str::to_owned)
        .collect();
    let mut families = spec.items("ipFamilies").to_vec();
    for (i, ip) in ips.iter().enumerate() {
        if ip == "None" {
            break;
        }
        if i < families.len() {
            continue;
        }
        let family = family_of(ip);
        if configured.contains(&family) {
            families.push(family.into());
        } else {
            let fault = format!("{family} is not configured on this cluster");
            errors.push(Error::invalid(&path.index(i), json!(ips), fault));
        }
    }
    if !families.is_empty() {
        spec.set("ipFamilies", families);
    }
}

/// Adds the preferred family if none is set, and the other one if two are wanted.
fn complete(spec: &mut Value, preferred: &str, two: bool) {
    let mut families: Vec<String> = check::texts(spec, "ipFamilies")
        .map(str::to_owned)
        .collect();
    if families.is_empty() {
        families.push(preferred.to_owned());
    }
    if two && families.len() == 1 {
        families.push(other(&families[0]).to_owned());
    }
    spec.set("ipFamilies", families);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(
        mut spec: Value,
        old: Option<&Value>,
        configured: &[&str],
    ) -> Result<Value, Vec<String>> {
        let outcome = settle(&mut spec, old, configured);
        outcome
            .map(|()| json!([spec.at("ipFamilyPolicy"), spec.at("ipFamilies")]))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_service_gets_the_families_its_cluster_and_policy_give() {
        let one = [FOUR];
        let two = [SIX, FOUR];
        let cases = [
            (json!({}), &one[..], json!(["SingleStack", ["IPv4"]])),
            (json!({}), &two[..], json!(["SingleStack", ["IPv6"]])),
            (
                json!({"ipFamilyPolicy": "PreferDualStack"}),
                &one[..],
                json!(["PreferDualStack", ["IPv4"]]),
            ),
            (
                json!({"ipFamilyPolicy": "PreferDualStack"}),
                &two[..],
                json!(["PreferDualStack", ["IPv6", "IPv4"]]),
            ),
            (
                json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4"]}),
                &two[..],
                json!(["RequireDualStack", ["IPv4", "IPv6"]]),
            ),
            (
                json!({"clusterIP": "None", "clusterIPs": ["None"]}),
                &one[..],
                json!(["RequireDualStack", ["IPv4", "IPv6"]]),
            ),
            (
                json!({"clusterIP": "None", "clusterIPs": ["None"], "selector": {"a": "b"}}),
                &one[..],
                json!(["SingleStack", ["IPv4"]]),
            ),
            (
                json!({"clusterIP": "192.0.2.1", "clusterIPs": ["192.0.2.1"]}),
                &two[..],
                json!(["SingleStack", ["IPv4"]]),
            ),
        ];
        for (spec, configured, expected) in cases {
            assert_eq!(
                settled(spec.clone(), None, configured),
                Ok(expected),
                "{spec}"
            );
        }
    }

    #[test]
    fn families_that_the_cluster_lacks_are_refused() {
        let cases = [
            (
                json!({"ipFamilyPolicy": "RequireDualStack"}),
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
            ),
            (
                json!({"ipFamilies": ["IPv6"]}),
                "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
            ),
            (
                json!({"clusterIP": "2001:db8::1", "clusterIPs": ["2001:db8::1"]}),
                "spec.clusterIPs[0]: Invalid value: [\"2001:db8::1\"]: IPv6 is not configured on this cluster",
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(settled(spec, None, &[FOUR]), Err(vec![expected.to_owned()]));
        }
    }

    #[test]
    fn one_family_is_gone_back_to_only_by_the_policy() {
        let old = json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"],
                         "clusterIP": "192.0.2.1", "clusterIPs": ["192.0.2.1", "2001:db8::1"]});
        let mut single = old.clone();
        single["ipFamilyPolicy"] = "SingleStack".into();
        settle(&mut single, Some(&old), &[FOUR, SIX]).expect("the policy says it");
        assert_eq!(single["clusterIPs"], json!(["192.0.2.1"]));
        assert_eq!(single["ipFamilies"], json!(["IPv4"]));

        let mut fewer = old.clone();
        fewer["ipFamilies"] = json!(["IPv4"]);
        assert_eq!(
            settled(fewer, Some(&old), &[FOUR, SIX]),
            Err(vec!["spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary IP family".to_owned()])
        );
    }
}
