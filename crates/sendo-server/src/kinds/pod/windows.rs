//! Validation of `spec.os` and of the fields that Windows or Linux pods may not have.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `validateOS`, `validateLinux`, `validateWindows`,
//!   `validateWindowsSecurityContextOptions`, `validateWindowsHostProcessPod`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;
use serde_json::Value;

use crate::kinds::check::{self, Errors};
use crate::kinds::value::Read;

const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";
const NOT_ON_LINUX: &str = "windows options cannot be set for a linux pod";

/// Fields that a Windows pod may not set: of its security context, and of its spec.
const POD_FIELDS: [(Holder, &str); 15] = [
    (Holder::SecurityContext, "appArmorProfile"),
    (Holder::SecurityContext, "seLinuxOptions"),
    (Holder::Spec, "hostUsers"),
    (Holder::Spec, "hostPID"),
    (Holder::Spec, "hostIPC"),
    (Holder::SecurityContext, "seccompProfile"),
    (Holder::SecurityContext, "fsGroup"),
    (Holder::SecurityContext, "fsGroupChangePolicy"),
    (Holder::SecurityContext, "sysctls"),
    (Holder::Spec, "shareProcessNamespace"),
    (Holder::SecurityContext, "runAsUser"),
    (Holder::SecurityContext, "runAsGroup"),
    (Holder::SecurityContext, "supplementalGroups"),
    (Holder::SecurityContext, "supplementalGroupsPolicy"),
    (Holder::SecurityContext, "seLinuxChangePolicy"),
];

const CONTAINER_FIELDS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

#[derive(Clone, Copy)]
enum Holder {
    Spec,
    SecurityContext,
}

/// Validates the operating system of a pod and the fields it excludes.
pub(super) fn operating_system(errors: &mut Errors, path: &Path, spec: &Value) {
    let os = spec.at("os");
    if os.is_null() {
        return;
    }
    match os.text("name") {
        "" => errors.push(Error::required(&path.child("os").child("name"), "")),
        "linux" => linux(errors, path, spec),
        "windows" => windows(errors, path, spec),
        name => errors.push(Error::not_supported(
            &path.child("os"),
            name,
            &["linux", "windows"],
        )),
    }
}

fn linux(errors: &mut Errors, path: &Path, spec: &Value) {
    if spec.at("securityContext").has("windowsOptions") {
        let path = path.child("securityContext").child("windowsOptions");
        errors.push(Error::forbidden(&path, NOT_ON_LINUX));
    }
    super::each_container(spec, path, |container, path| {
        if container.at("securityContext").has("windowsOptions") {
            let path = path.child("securityContext").child("windowsOptions");
            errors.push(Error::forbidden(&path, NOT_ON_LINUX));
        }
    });
}

fn windows(errors: &mut Errors, path: &Path, spec: &Value) {
    let is_there = |holder: &Value, key: &str| match key {
        "hostPID" | "hostIPC" => holder.is_set(key),
        "sysctls" => !holder.items(key).is_empty(),
        key => holder.has(key),
    };
    for (holder, key) in POD_FIELDS {
        let (object, path) = match holder {
            Holder::Spec => (spec, path.child(key)),
            Holder::SecurityContext => (
                spec.at("securityContext"),
                path.child("securityContext").child(key),
            ),
        };
        if is_there(object, key) {
            errors.push(Error::forbidden(&path, NOT_ON_WINDOWS));
        }
    }
    super::each_container(spec, path, |container, path| {
        for key in CONTAINER_FIELDS {
            if container.at("securityContext").has(key) {
                errors.push(Error::forbidden(
                    &path.child("securityContext").child(key),
                    NOT_ON_WINDOWS,
                ));
            }
        }
    });
}

/// Validates `windowsOptions` of a pod or container.
pub(super) fn options(errors: &mut Errors, path: &Path, options: &Value) {
    if let Some(name) = options.at("gmsaCredentialSpecName").as_str() {
        check::faults(
            errors,
            &path.child("gmsaCredentialSpecName"),
            name,
            names::dns1123_subdomain(name),
        );
    }
    if let Some(credentials) = options.at("gmsaCredentialSpec").as_str() {
        let fault = match credentials.len() {
            0 => Some("gmsaCredentialSpec cannot be an empty string"),
            length if length > 64 * 1024 => Some("gmsaCredentialSpec size must be under 64 KiB"),
            _ => None,
        };
        if let Some(fault) = fault {
            errors.push(Error::invalid(
                &path.child("gmsaCredentialSpec"),
                credentials,
                fault,
            ));
        }
    }
    if let Some(name) = options.at("runAsUserName").as_str() {
        for fault in user_name_faults(name) {
            errors.push(Error::invalid(&path.child("runAsUserName"), name, fault));
        }
    }
}

/// Checks a user name, with or without a domain: `user` or `DOMAIN\user`.
fn user_name_faults(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if name.chars().any(|c| c.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    if name.matches('\\').count() > 1 {
        return vec!["runAsUserName cannot contain more than one backslash"];
    }
    let (domain, user) = match name.split_once('\\') {
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    let mut faults = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= 256) {
        faults.push("runAsUserName's Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !is_net_bios_name(domain) && !is_dns_name(domain)) {
        faults.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        faults.push("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        faults.push("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ') {
        faults.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        faults.push(
            "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]",
        );
    }
    faults
}

fn is_net_bios_name(name: &str) -> bool {
    let length = name.chars().count();
    (1..=15).contains(&length)
        && !name.starts_with('.')
        && !name.contains(|c| "\\/:*?\"<>|".contains(c))
}

fn is_dns_name(name: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    name.split('.').all(|label| {
        label.len() <= 63
            && label.starts_with(alphanumeric)
            && label.ends_with(alphanumeric)
            && label.chars().all(|c| alphanumeric(c) || c == '-')
    })
}

/// Validates HostProcess containers: either all containers of a pod are, and use the host network,
/// or none is.
pub(super) fn host_processes(errors: &mut Errors, path: &Path, spec: &Value) {
    let of_pod = spec
        .at("securityContext")
        .at("windowsOptions")
        .switch("hostProcess");
    let (mut all, mut on_host) = (0, 0);
    super::each_container(spec, path, |container, path| {
        all += 1;
        let own = container
            .at("securityContext")
            .at("windowsOptions")
            .switch("hostProcess");
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let path = path
                .child("securityContext")
                .child("windowsOptions")
                .child("hostProcess");
            let fault = format!(
                "pod hostProcess value must be identical if both are specified, was {of_pod}"
            );
            errors.push(Error::invalid(&path, own, fault));
        }
        on_host += usize::from(own.or(of_pod).unwrap_or(false));
    });
    if on_host == 0 {
        return;
    }
    if on_host != all {
        let fault = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(Error::invalid(path, "", fault));
    }
    if !spec.is_set("hostNetwork") {
        let fault = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(Error::invalid(&path.child("hostNetwork"), false, fault));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names_may_have_a_domain() {
        let cases = [
            ("admin", 0),
            ("CORP\\admin", 0),
            ("corp.example\\admin", 0),
            ("a\\b\\c", 1),
            ("CORP\\", 1),
            ("a:b", 1),
            ("...", 1),
        ];
        for (name, faults) in cases {
            assert_eq!(user_name_faults(name).len(), faults, "{name}");
        }
    }
}
