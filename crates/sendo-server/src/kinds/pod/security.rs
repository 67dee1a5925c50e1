//! Validation of security contexts, sysctls and host namespaces.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `validatePodSpecSecurityContext`,
//!   `ValidateSecurityContext`, `validateHostUsers`, `validateSysctls`,
//!   `validateSeccompProfileField`, `ValidateAppArmorProfileField`

use sendo_apimachinery::field::{BadValue, Error, Path};
use sendo_apimachinery::names;
use serde_json::Value;

use super::windows;
use crate::kinds::check::{self, Errors};
use crate::kinds::ordered::Ordered;
use crate::kinds::value::Read;

const HOST_USERS: &str = "when `hostUsers` is false";

/// Whether a pod runs in the host's user namespace.
pub(super) fn host_users(spec: &Value) -> bool {
    spec.switch("hostUsers").unwrap_or(true)
}

/// Validates the security context of a pod.
pub(super) fn pod(errors: &mut Errors, path: &Path, spec: &Value) {
    let context = spec.at("securityContext");
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(errors, &path.child(key), context.number(key));
    }
    for (i, group) in context.items("supplementalGroups").iter().enumerate() {
        id(
            errors,
            &path.child("supplementalGroups").index(i),
            group.as_i64(),
        );
    }
    if spec.is_set("shareProcessNamespace") && spec.is_set("hostPID") {
        let fault = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(Error::invalid(
            &path.child("shareProcessNamespace"),
            true,
            fault,
        ));
    }
    sysctls(errors, &path.child("sysctls"), spec);
    let policies = ["Always", "OnRootMismatch"];
    check::optional_one_of(
        errors,
        &path.child("fsGroupChangePolicy"),
        context.at("fsGroupChangePolicy"),
        &policies,
    );
    seccomp(
        errors,
        &path.child("seccompProfile"),
        context.at("seccompProfile"),
    );
    windows::options(
        errors,
        &path.child("windowsOptions"),
        context.at("windowsOptions"),
    );
    app_armor(
        errors,
        &path.child("appArmorProfile"),
        context.at("appArmorProfile"),
    );
    let policy = context.at("supplementalGroupsPolicy");
    check::optional_one_of(
        errors,
        &path.child("supplementalGroupsPolicy"),
        policy,
        &["Merge", "Strict"],
    );
    let policy = context.at("seLinuxChangePolicy");
    check::optional_one_of(
        errors,
        &path.child("seLinuxChangePolicy"),
        policy,
        &["Recursive"],
    );
}

fn id(errors: &mut Errors, path: &Path, id: Option<i64>) {
    if let Some(id) = id {
        check::number_faults(errors, path, id, names::unix_id(id));
    }
}

/// Validates the security context of a container.
pub(super) fn container(errors: &mut Errors, path: &Path, context: &Value, host_users: bool) {
    if context.is_null() {
        return;
    }
    for key in ["runAsUser", "runAsGroup"] {
        id(errors, &path.child(key), context.number(key));
    }
    if let Some(mount) = context.at("procMount").as_str() {
        let path = path.child("procMount");
        check::one_of(errors, &path, mount, &["Default", "Unmasked"]);
        if host_users && mount == "Unmasked" {
            let fault = "`hostUsers` must be false to use `Unmasked`";
            errors.push(Error::invalid(&path, mount, fault));
        }
    }
    seccomp(
        errors,
        &path.child("seccompProfile"),
        context.at("seccompProfile"),
    );
    if context.switch("allowPrivilegeEscalation") == Some(false) {
        let shown = || BadValue::Raw(internal(context));
        if context.is_set("privileged") {
            let fault = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(Error::invalid(path, shown(), fault));
        }
        for _ in
            check::texts(context.at("capabilities"), "add").filter(|name| *name == "CAP_SYS_ADMIN")
        {
            let fault = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(Error::invalid(path, shown(), fault));
        }
    }
    windows::options(
        errors,
        &path.child("windowsOptions"),
        context.at("windowsOptions"),
    );
    app_armor(
        errors,
        &path.child("appArmorProfile"),
        context.at("appArmorProfile"),
    );
}

/// A security context as Kubernetes prints its internal struct in a message.
fn internal(context: &Value) -> String {
    let nested = |key: &str, members: &[(&str, &str)]| match context.at(key) {
        Value::Null => "null".to_owned(),
        value => {
            let text = members.iter().fold(Ordered::new(), |text, (shown, key)| {
                text.with(shown, value.at(key))
            });
            text.finish()
        }
    };
    let profile = [("Type", "type"), ("LocalhostProfile", "localhostProfile")];
    Ordered::new()
        .raw(
            "Capabilities",
            nested("capabilities", &[("Add", "add"), ("Drop", "drop")]),
        )
        .with("Privileged", context.at("privileged"))
        .raw(
            "SELinuxOptions",
            nested(
                "seLinuxOptions",
                &[
                    ("User", "user"),
                    ("Role", "role"),
                    ("Type", "type"),
                    ("Level", "level"),
                ],
            ),
        )
        .raw(
            "WindowsOptions",
            nested(
                "windowsOptions",
                &[
                    ("GMSACredentialSpecName", "gmsaCredentialSpecName"),
                    ("GMSACredentialSpec", "gmsaCredentialSpec"),
                    ("RunAsUserName", "runAsUserName"),
                    ("HostProcess", "hostProcess"),
                ],
            ),
        )
        .with("RunAsUser", context.at("runAsUser"))
        .with("RunAsGroup", context.at("runAsGroup"))
        .with("RunAsNonRoot", context.at("runAsNonRoot"))
        .with(
            "ReadOnlyRootFilesystem",
            context.at("readOnlyRootFilesystem"),
        )
        .with(
            "AllowPrivilegeEscalation",
            context.at("allowPrivilegeEscalation"),
        )
        .with("ProcMount", context.at("procMount"))
        .raw("SeccompProfile", nested("seccompProfile", &profile))
        .raw("AppArmorProfile", nested("appArmorProfile", &profile))
        .finish()
}

fn seccomp(errors: &mut Errors, path: &Path, profile: &Value) {
    if profile.is_null() {
        return;
    }
    let kind = profile.text("type");
    if kind.is_empty() {
        errors.push(Error::required(
            &path.child("type"),
            "type is required when seccompProfile is set",
        ));
    } else {
        check::one_of(
            errors,
            &path.child("type"),
            kind,
            &["Localhost", "RuntimeDefault", "Unconfined"],
        );
    }
    let path = path.child("localhostProfile");
    match (kind, profile.at("localhostProfile").as_str()) {
        ("Localhost", None) => {
            errors.push(Error::required(
                &path,
                "must be set when seccomp type is Localhost",
            ));
        }
        ("Localhost", Some(file)) => check::descending_path(errors, &path, file),
        (_, Some(file)) => {
            let shown = Ordered::new()
                .text("Type", kind)
                .text("LocalhostProfile", file)
                .finish();
            let fault = "can only be set when seccomp type is Localhost";
            errors.push(Error::invalid(&path, BadValue::Raw(shown), fault));
        }
        (_, None) => {}
    }
}

fn app_armor(errors: &mut Errors, path: &Path, profile: &Value) {
    const MISSING: &str = "must be set when AppArmor type is Localhost";
    if profile.is_null() {
        return;
    }
    let file_path = path.child("localhostProfile");
    let file = profile.at("localhostProfile").as_str();
    match (profile.text("type"), file) {
        ("Localhost", None) => errors.push(Error::required(&file_path, MISSING)),
        ("Localhost", Some(file)) => {
            if file.trim() != file {
                errors.push(Error::invalid(
                    &file_path,
                    file,
                    "must not be padded with whitespace",
                ));
            } else if file.is_empty() {
                errors.push(Error::required(&file_path, MISSING));
            }
            if file.len() > 4095 {
                errors.push(Error::too_long(&file_path, 4095));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(file)) => {
            let fault = "can only be set when AppArmor type is Localhost";
            errors.push(Error::invalid(&file_path, file, fault));
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => {
            let fault = "type is required when appArmorProfile is set";
            errors.push(Error::required(&path.child("type"), fault));
        }
        (kind, _) => {
            let kinds = ["Localhost", "RuntimeDefault", "Unconfined"];
            errors.push(Error::not_supported(&path.child("type"), kind, &kinds));
        }
    }
}

fn sysctls(errors: &mut Errors, path: &Path, spec: &Value) {
    const FORM: &str = "must have at most 253 characters and match regex \
                        ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let mut seen: Vec<&str> = Vec::new();
    for (i, sysctl) in spec
        .at("securityContext")
        .items("sysctls")
        .iter()
        .enumerate()
    {
        let path = path.index(i).child("name");
        let name = sysctl.text("name");
        if name.is_empty() {
            errors.push(Error::required(&path, ""));
        } else if !is_sysctl_name(name) {
            errors.push(Error::invalid(&path, name, FORM));
        } else if seen.contains(&name) {
            errors.push(Error::duplicate(&path, name));
        }
        let dotted = dotted_sysctl(name);
        let is_of_ipc = dotted.starts_with("kernel.shm")
            || dotted.starts_with("kernel.msg")
            || dotted.starts_with("fs.mqueue.")
            || dotted == "kernel.sem";
        if spec.is_set("hostNetwork") && dotted.starts_with("net.") {
            errors.push(Error::invalid(
                &path,
                name,
                "may not be specified when 'hostNetwork' is true",
            ));
        } else if spec.is_set("hostIPC") && is_of_ipc {
            errors.push(Error::invalid(
                &path,
                name,
                "may not be specified when 'hostIPC' is true",
            ));
        }
        seen.push(name);
    }
}

/// The dotted name of a sysctl. If the first separator is a slash, slashes and dots are exchanged.
fn dotted_sysctl(name: &str) -> String {
    let first = name
        .find(['.', '/'])
        .and_then(|at| name[at..].chars().next());
    if first != Some('/') {
        return name.to_owned();
    }
    let swap = |c: char| match c {
        '/' => '.',
        '.' => '/',
        c => c,
    };
    name.chars().map(swap).collect()
}

fn is_sysctl_name(name: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let part = |part: &str| {
        part.starts_with(word)
            && part.ends_with(word)
            && part.chars().all(|c| word(c) || c == '-' || c == '_')
    };
    name.len() <= 253 && name.split(['.', '/']).all(part)
}

/// Validates that a pod with its own user namespace does not share other host namespaces.
pub(super) fn user_namespace(errors: &mut Errors, path: &Path, spec: &Value) {
    if host_users(spec) {
        return;
    }
    // The path is spelled as in Kubernetes.
    for (key, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if spec.is_set(key) {
            errors.push(Error::forbidden(&path.child(shown), HOST_USERS));
        }
    }
    super::each_container(spec, path, |container, path| {
        if !container.items("volumeDevices").is_empty() {
            errors.push(Error::forbidden(&path.child("volumeDevices"), HOST_USERS));
        }
    });
}
