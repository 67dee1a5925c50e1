//! Validation of environment variables and of references to pod fields and container resources.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidateEnv`, `validateEnvVarValueFrom`,
//!   `ValidateEnvFrom`, `validateObjectFieldSelector`, `validateContainerResourceFieldSelector`,
//!   `validateFileKeyRefVolumes`
//! - `pkg/apis/core/pods/helpers.go`: `ConvertDownwardAPIFieldLabel`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;
use serde_json::Value;

use crate::kinds::check::{self, Errors};
use crate::kinds::value::Read;

const ONE_SOURCE: &str = "may not have more than one field specified at a time";

/// The pod fields that an environment variable may refer to.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The pod fields that a downward API file may refer to.
pub(super) const FILE_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];

pub(super) fn variables(errors: &mut Errors, path: &Path, variables: &[Value]) {
    for (i, variable) in variables.iter().enumerate() {
        let path = path.index(i);
        check::required_name(
            errors,
            &path.child("name"),
            variable.text("name"),
            names::env_var_name,
        );
        if variable.has("valueFrom") {
            source(errors, &path.child("valueFrom"), variable);
        }
    }
}

fn source(errors: &mut Errors, path: &Path, variable: &Value) {
    let source = variable.at("valueFrom");
    let mut sources = 0;
    let mut each = |key: &str, validate: &dyn Fn(&mut Errors, &Path, &Value)| {
        if source.has(key) {
            sources += 1;
            validate(errors, &path.child(key), source.at(key));
        }
    };
    each("fieldRef", &|errors, path, field| {
        field_reference(errors, path, field, &FIELDS)
    });
    each("resourceFieldRef", &|errors, path, field| {
        resource_reference(errors, path, field, InFile::No)
    });
    each("configMapKeyRef", &key_reference);
    each("secretKeyRef", &key_reference);
    each("fileKeyRef", &file_reference);
    let fault = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !variable.text("value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => ONE_SOURCE,
    };
    errors.push(Error::invalid(path, "", fault));
}

fn key_reference(errors: &mut Errors, path: &Path, reference: &Value) {
    let name = reference.text("name");
    check::faults(
        errors,
        &path.child("name"),
        name,
        names::dns1123_subdomain(name),
    );
    check::required_name(
        errors,
        &path.child("key"),
        reference.text("key"),
        names::config_map_key,
    );
}

fn file_reference(errors: &mut Errors, path: &Path, reference: &Value) {
    check::required_name(
        errors,
        &path.child("key"),
        reference.text("key"),
        names::env_var_name,
    );
    let volume = reference.text("volumeName");
    check::required_name(
        errors,
        &path.child("volumeName"),
        volume,
        names::dns1123_label,
    );
    let file = &path.child("path");
    check::required(errors, file, reference.text("path"));
    check::no_backsteps(errors, file, reference.text("path"));
}

/// Validates a reference to a pod field, which must be one of `fields` or an entry of the labels or
/// annotations.
pub(super) fn field_reference(
    errors: &mut Errors,
    path: &Path,
    reference: &Value,
    fields: &[&str],
) {
    for key in ["apiVersion", "fieldPath"] {
        if reference.text(key).is_empty() {
            errors.push(Error::required(&path.child(key), ""));
            return;
        }
    }
    let field = reference.text("fieldPath");
    let field_path = &path.child("fieldPath");
    if let Some(fault) = unknown_field(reference.text("apiVersion"), field) {
        errors.push(Error::invalid(
            field_path,
            field,
            format!("error converting fieldPath: {fault}"),
        ));
        return;
    }
    match subscript(field) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            check::faults(errors, path, &key, names::qualified_name(&key));
        }
        Some(("metadata.labels", key)) => {
            check::faults(errors, path, key, names::qualified_name(key))
        }
        Some((field, _)) => errors.push(Error::invalid(path, field, "does not support subscript")),
        None if !fields.contains(&field) => {
            errors.push(Error::not_supported(field_path, field, fields))
        }
        None => {}
    }
}

/// Splits `metadata.labels['key']` into the field and the key.
fn subscript(field: &str) -> Option<(&str, &str)> {
    let (field, rest) = field.split_once("['")?;
    Some((field, rest.strip_suffix("']")?))
}

fn unknown_field(version: &str, field: &str) -> Option<String> {
    if version != "v1" {
        return Some(format!("unsupported pod version: {version}"));
    }
    let known = match subscript(field) {
        Some((map, _)) if map == "metadata.annotations" || map == "metadata.labels" => true,
        Some(_) => return Some(format!("field label does not support subscript: {field}")),
        None => {
            FIELDS.contains(&field)
                || FILE_FIELDS.contains(&field)
                || field == "spec.restartPolicy"
                || field == "spec.schedulerName"
                || field == "status.phase"
                || field == "spec.host"
        }
    };
    (!known).then(|| format!("field label not supported: {field}"))
}

/// Whether a resource reference is in a downward API file, which must name the container.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum InFile {
    Yes,
    No,
}

/// Validates a reference to a request or limit of a container.
pub(super) fn resource_reference(
    errors: &mut Errors,
    path: &Path,
    reference: &Value,
    in_file: InFile,
) {
    let resource = reference.text("resource");
    let is_huge_page = HUGE_PAGES.iter().any(|prefix| resource.starts_with(prefix));
    if in_file == InFile::Yes && reference.text("containerName").is_empty() {
        errors.push(Error::required(&path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(Error::required(&path.child("resource"), ""));
    } else if !RESOURCES.contains(&resource) && !is_huge_page {
        errors.push(Error::not_supported(
            &path.child("resource"),
            resource,
            &RESOURCES,
        ));
    }
    divisor(
        errors,
        &path.child("divisor"),
        resource,
        reference.text("divisor"),
    );
}

fn divisor(errors: &mut Errors, path: &Path, resource: &str, divisor: &str) {
    const SIZES: [&str; 13] = [
        "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
    ];
    if matches!(divisor, "" | "0") {
        return;
    }
    let what = match resource.split_once('.').map_or("", |(_, what)| what) {
        "cpu" => {
            if !["1m", "1"].contains(&divisor) {
                let fault = "only divisor's values 1m and 1 are supported with the cpu resource";
                errors.push(Error::invalid(path, resource, fault));
            }
            return;
        }
        "memory" => "memory",
        "ephemeral-storage" => "local ephemeral storage",
        other if other.starts_with("hugepages-") => "hugepages",
        _ => return,
    };
    if !SIZES.contains(&divisor) {
        let sizes = SIZES.join(", ");
        let fault = format!("only divisor's values {sizes} are supported with the {what} resource");
        errors.push(Error::invalid(path, resource, fault));
    }
}

/// Validates `envFrom`.
pub(super) fn env_from(errors: &mut Errors, path: &Path, sources: &[Value]) {
    for (i, source) in sources.iter().enumerate() {
        let item = path.index(i);
        let prefix = source.text("prefix");
        if !prefix.is_empty() {
            check::faults(
                errors,
                &item.child("prefix"),
                prefix,
                names::env_var_name(prefix),
            );
        }
        let present: Vec<&str> = ["configMapRef", "secretRef"]
            .into_iter()
            .filter(|key| source.has(key))
            .collect();
        for key in &present {
            let name = source.at(key).text("name");
            check::required_name(
                errors,
                &item.child(key).child("name"),
                name,
                prefixed_subdomain,
            );
        }
        match present.len() {
            0 => errors.push(Error::invalid(
                path,
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            )),
            1 => {}
            _ => errors.push(Error::invalid(path, "", ONE_SOURCE)),
        }
    }
}

/// Checks the prefix of a DNS subdomain: a trailing `-` is allowed.
fn prefixed_subdomain(name: &str) -> Vec<String> {
    names::generate_name(name, names::dns1123_subdomain)
}

/// Validates that variables read from files name a volume of type `emptyDir`.
pub(super) fn file_volumes(errors: &mut Errors, path: &Path, spec: &Value) {
    super::each_container(spec, path, |container, path| {
        for (i, variable) in container.items("env").iter().enumerate() {
            let reference = variable.at("valueFrom").at("fileKeyRef");
            if reference.is_null() {
                continue;
            }
            let name = reference.text("volumeName");
            let name_path = path
                .child("env")
                .index(i)
                .child("valueFrom")
                .child("fileKeyRef")
                .child("volumeName");
            let volume = spec
                .items("volumes")
                .iter()
                .rfind(|volume| volume.text("name") == name);
            match volume {
                None => errors.push(Error::not_found(&name_path, name)),
                Some(volume) if !volume.has("emptyDir") => {
                    let fault = "referenced volume must be of type emptyDir";
                    errors.push(Error::invalid(&name_path, name, fault));
                }
                Some(_) => {}
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults_of(variable: Value) -> Vec<String> {
        let mut errors = Vec::new();
        variables(&mut errors, &Path::new("env"), &[variable]);
        errors.iter().map(Error::to_string).collect()
    }

    #[test]
    fn a_variable_has_one_source() {
        let field = json!({"apiVersion": "v1", "fieldPath": "metadata.name"});
        let cases = [
            (json!({"name": "A", "value": "x"}), None),
            (json!({"name": "A", "valueFrom": {"fieldRef": field}}), None),
            (json!({"value": "x"}), Some("env[0].name: Required value")),
            (
                json!({"name": "A", "value": "x", "valueFrom": {"fieldRef": field}}),
                Some(
                    "env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
                ),
            ),
            (
                json!({"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.x"}}}),
                Some(
                    "env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.x\": \
                     error converting fieldPath: field label not supported: spec.x",
                ),
            ),
        ];
        for (variable, expected) in cases {
            let found = faults_of(variable);
            assert_eq!(found.first().map(String::as_str), expected);
        }
    }

    #[test]
    fn labels_are_shown_by_key() {
        let by_key = |key: &str| {
            let field =
                json!({"apiVersion": "v1", "fieldPath": format!("metadata.labels['{key}']")});
            faults_of(json!({"name": "A", "valueFrom": {"fieldRef": field}})).len()
        };
        assert_eq!((by_key("example.dev/a"), by_key("a b")), (0, 1));
    }
}
