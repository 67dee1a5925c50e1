//! Validation of CustomResourceDefinitions.
//!
//! Paths are those of Kubernetes' internal type: a field that is equal in all versions is reported
//! once, at the top level of the spec.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`:
//!   `ValidateCustomResourceDefinition`, `ValidateCustomResourceDefinitionUpdate`,
//!   `ValidateUpdateCustomResourceDefinitionStatus`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apihelpers/helpers.go`: `GetAPIApprovalState`

mod conversion;
mod paths;

use sendo_apimachinery::definition_schema::{self, CheckOptions};
use sendo_apimachinery::field::{BadValue, Error, Path};
use sendo_apimachinery::meta::{self, FinalizerNames, MetaRules, Scope};
use sendo_apimachinery::schema::Types;
use sendo_apimachinery::{Meta, go_quote, names};
use serde_json::{Value, json};

use super::{names as accepted, text, texts};

/// Validates a new definition.
pub(crate) fn validate_create(definition: &Value, types: &Types) -> Vec<Error> {
    let rules = MetaRules {
        scope: Scope::Cluster,
        name: names::dns1123_subdomain,
        finalizers: FinalizerNames::DomainOrStandard,
    };
    let metadata = Path::new("metadata");
    let mut errors = meta::validate_create(Meta::new(definition), &rules, &metadata);
    errors.extend(check_name(definition, &metadata, errors.len()));
    // An invalid name is reported in addition to all other errors.
    errors.extend(validate(definition, types));
    errors
}

/// Validates an update of a definition.
pub(crate) fn validate_update(new: &Value, old: &Value, types: &Types) -> Vec<Error> {
    let metadata = Path::new("metadata");
    let mut errors = meta::validate_update(
        Meta::new(new),
        Meta::new(old),
        FinalizerNames::DomainOrStandard,
        &metadata,
    );
    errors.extend(validate_spec(new, types));
    let spec = Path::new("spec");
    let names = spec.child("names");
    let (is, was) = (&new["spec"], &old["spec"]);
    if accepted::is_established(old) {
        errors.extend(meta::validate_immutable(
            &is["scope"],
            &was["scope"],
            &spec.child("scope"),
        ));
        errors.extend(meta::validate_immutable(
            &is["names"]["kind"],
            &was["names"]["kind"],
            &names.child("kind"),
        ));
    }
    errors.extend(meta::validate_immutable(
        &is["group"],
        &was["group"],
        &spec.child("group"),
    ));
    errors.extend(meta::validate_immutable(
        &is["names"]["plural"],
        &was["names"]["plural"],
        &names.child("plural"),
    ));
    errors.extend(validate_rest(new));
    errors
}

/// Validates an update of the status.
pub(crate) fn validate_status(new: &Value) -> Vec<Error> {
    let path = Path::new("status").child("acceptedNames");
    validate_names(&new["status"]["acceptedNames"], &path)
}

fn validate(definition: &Value, types: &Types) -> Vec<Error> {
    let mut errors = validate_spec(definition, types);
    errors.extend(validate_rest(definition));
    errors
}

/// Validates that the name is `<plural>.<group>`.
fn check_name(definition: &Value, metadata: &Path, _errors: usize) -> Vec<Error> {
    let spec = &definition["spec"];
    let wanted = format!(
        "{}.{}",
        text(&spec["names"]["plural"]),
        text(&spec["group"])
    );
    let why = "must be spec.names.plural+\".\"+spec.group";
    let meta = Meta::new(definition);
    let mut errors = Vec::new();
    if !meta.generate_name().is_empty() {
        errors.push(Error::invalid(
            &metadata.child("generateName"),
            meta.generate_name(),
            why,
        ));
    }
    if !meta.name().is_empty() && meta.name() != wanted {
        errors.push(Error::invalid(&metadata.child("name"), meta.name(), why));
    }
    errors
}

fn validate_spec(definition: &Value, types: &Types) -> Vec<Error> {
    let spec = &definition["spec"];
    let path = Path::new("spec");
    let mut errors = validate_group(spec, &path);
    let scope = text(&spec["scope"]);
    if scope.is_empty() {
        errors.push(Error::required(&path.child("scope"), ""));
    } else if !["Cluster", "Namespaced"].contains(&scope) {
        errors.push(Error::not_supported(
            &path.child("scope"),
            scope,
            &["Cluster", "Namespaced"],
        ));
    }
    let versions = versions(spec);
    for (i, version) in versions.iter().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            let schema = path
                .child("versions")
                .index(i)
                .child("schema")
                .child("openAPIV3Schema");
            errors.push(Error::required(&schema, ""));
        }
    }
    errors.extend(validate_versions(spec, types, &path));
    errors.extend(validate_names(&spec["names"], &path.child("names")));
    if let Some(first) = versions.first() {
        let equal = EqualFields::new(versions);
        if equal.schema {
            errors.extend(validate_schema(first, types, &path.child("validation")));
        }
        if equal.subresources {
            errors.extend(paths::validate_subresources(
                first,
                &path.child("subresources"),
            ));
        }
        if equal.columns {
            errors.extend(paths::validate_columns(
                first,
                &path.child("additionalPrinterColumns"),
            ));
        }
        if equal.selectable {
            errors.extend(paths::validate_selectable(
                first,
                &path.child("selectableFields"),
            ));
        }
    }
    errors.extend(conversion::validate(
        &spec["conversion"],
        &path.child("conversion"),
    ));
    errors
}

fn versions(spec: &Value) -> &[Value] {
    spec["versions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The fields that are equal in all versions, which are reported once.
struct EqualFields {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl EqualFields {
    fn new(versions: &[Value]) -> Self {
        let alike = |member: &str| {
            versions
                .windows(2)
                .all(|pair| pair[0].get(member) == pair[1].get(member))
        };
        EqualFields {
            schema: alike("schema"),
            subresources: alike("subresources"),
            columns: alike("additionalPrinterColumns"),
            selectable: alike("selectableFields"),
        }
    }
}

fn validate_group(spec: &Value, path: &Path) -> Vec<Error> {
    let group = text(&spec["group"]);
    let path = path.child("group");
    let faults = names::dns1123_subdomain(group);
    let error = if group.is_empty() {
        Error::required(&path, "")
    } else if !faults.is_empty() {
        Error::invalid(&path, group, faults.join(","))
    } else if !group.contains('.') {
        Error::invalid(&path, group, "should be a domain with at least one dot")
    } else {
        return Vec::new();
    };
    vec![error]
}

fn validate_versions(spec: &Value, types: &Types, path: &Path) -> Vec<Error> {
    let versions = versions(spec);
    let equal = EqualFields::new(versions);
    let mut errors = Vec::new();
    for (i, version) in versions.iter().enumerate() {
        let path = path.child("versions").index(i);
        let name = text(&version["name"]);
        let faults = names::dns1035_label(name);
        if !faults.is_empty() {
            errors.push(Error::invalid(&path.child("name"), name, faults.join(",")));
        }
        errors.extend(validate_deprecation(version, &path));
        if !equal.schema {
            errors.extend(validate_schema(version, types, &path.child("schema")));
        }
        if !equal.subresources {
            errors.extend(paths::validate_subresources(
                version,
                &path.child("subresources"),
            ));
        }
        if !equal.columns {
            errors.extend(paths::validate_columns(
                version,
                &path.child("additionalPrinterColumns"),
            ));
        }
        if !equal.selectable {
            errors.extend(paths::validate_selectable(
                version,
                &path.child("selectableFields"),
            ));
        }
    }
    let versions_path = path.child("versions");
    let shown = || BadValue::Raw(in_go(versions));
    let unique = versions.iter().enumerate().all(|(i, version)| {
        versions[..i]
            .iter()
            .all(|other| other["name"] != version["name"])
    });
    if !unique {
        errors.push(Error::invalid(
            &versions_path,
            shown(),
            "must contain unique version names",
        ));
    }
    if versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count()
        != 1
    {
        let why = "must have exactly one version marked as storage version";
        errors.push(Error::invalid(&versions_path, shown(), why));
    }
    let first = versions
        .first()
        .map(|version| text(&version["name"]))
        .unwrap_or_default();
    let faults = names::dns1035_label(first);
    if !first.is_empty() && !faults.is_empty() {
        errors.push(Error::invalid(
            &path.child("version"),
            first,
            faults.join(","),
        ));
    }
    errors
}

/// The versions as Go prints its internal type, without the fields that are equal in all of them.
fn in_go(versions: &[Value]) -> String {
    let one = |version: &Value| {
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\
             \"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
            version["name"],
            version["served"] == true,
            version["storage"] == true,
            version["deprecated"] == true,
            version["deprecationWarning"],
        )
    };
    format!(
        "[{}]",
        versions.iter().map(one).collect::<Vec<_>>().join(",")
    )
}

fn validate_deprecation(version: &Value, path: &Path) -> Vec<Error> {
    let Some(warning) = version["deprecationWarning"].as_str() else {
        return Vec::new();
    };
    let path = path.child("deprecationWarning");
    let mut errors = Vec::new();
    if version["deprecated"] != true {
        errors.push(Error::invalid(
            &path,
            warning,
            "can only be set for deprecated versions",
        ));
    }
    if warning.is_empty() {
        errors.push(Error::invalid(
            &path,
            warning,
            "must not be an empty string",
        ));
    }
    if warning.len() > 256 {
        errors.push(Error::invalid(
            &path,
            warning,
            "must be <= 256 characters long",
        ));
    }
    let printable = |c: char| go_quote(c.encode_utf8(&mut [0; 4])).contains(c);
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| !printable(*c)) {
        let why = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        );
        errors.push(Error::invalid(&path, warning, why));
    }
    errors
}

fn validate_schema(version: &Value, types: &Types, path: &Path) -> Vec<Error> {
    let schema = &version["schema"]["openAPIV3Schema"];
    if !schema.is_object() {
        return Vec::new();
    }
    let status_subresource = version["subresources"]
        .get("status")
        .is_some_and(|status| !status.is_null());
    let options = CheckOptions { status_subresource };
    definition_schema::check(schema, options, types, &path.child("openAPIV3Schema"))
        .err()
        .unwrap_or_default()
}

fn validate_names(names: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(&names[name]).is_empty() {
            errors.push(Error::required(&path.child(name), ""));
        }
    }
    let label = |errors: &mut Vec<Error>, path: &Path, name: &str| {
        let faults = names::dns1035_label(name);
        if !name.is_empty() && !faults.is_empty() {
            errors.push(Error::invalid(path, name, faults.join(",")));
        }
    };
    for name in ["plural", "singular"] {
        label(&mut errors, &path.child(name), text(&names[name]));
    }
    for name in ["kind", "listKind"] {
        let kind = text(&names[name]);
        let faults = names::dns1035_label(&kind.to_lowercase());
        if !kind.is_empty() && !faults.is_empty() {
            let why = format!(
                "may have mixed case, but should otherwise match: {}",
                faults.join(",")
            );
            errors.push(Error::invalid(&path.child(name), kind, why));
        }
    }
    for (i, name) in texts(&names["shortNames"]).iter().enumerate() {
        label(&mut errors, &path.child("shortNames").index(i), name);
    }
    let list_kind = text(&names["listKind"]);
    if !list_kind.is_empty() && names["kind"] == list_kind {
        let why = "kind and listKind may not be the same";
        errors.push(Error::invalid(&path.child("listKind"), list_kind, why));
    }
    for (i, name) in texts(&names["categories"]).iter().enumerate() {
        label(&mut errors, &path.child("categories").index(i), name);
    }
    errors
}

/// Validates stored versions, the approval of protected groups, and `preserveUnknownFields`.
fn validate_rest(definition: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    let spec = &definition["spec"];
    let stored = Path::new("status").child("storedVersions");
    let versions_stored = texts(&definition["status"]["storedVersions"]);
    if versions_stored.is_empty() {
        let why = "must have at least one stored version";
        errors.push(Error::invalid(&stored, Value::Null, why));
    }
    for (i, version) in versions_stored.iter().enumerate() {
        if !versions(spec)
            .iter()
            .any(|own| own["name"] == version.as_str())
        {
            let why = format!(
                "missing from spec.versions; {version} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {version} and \
                 removes {version} from status.storedVersions"
            );
            errors.push(Error::invalid(&stored.index(i), version.as_str(), why));
        }
    }
    errors.extend(validate_approval(definition));
    if spec["preserveUnknownFields"] == true {
        let strategy = text(&spec["conversion"]["strategy"]);
        if strategy == "Webhook" {
            let path = Path::new("spec").child("conversion").child("strategy");
            let why = "must be None if spec.preserveUnknownFields is true";
            errors.push(Error::invalid(&path, strategy, why));
        }
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(Error::invalid(
            &Path::new("spec").child("preserveUnknownFields"),
            json!(true),
            why,
        ));
    }
    errors
}

/// Validates the approval annotation, which groups below `k8s.io` and `kubernetes.io` require.
fn validate_approval(definition: &Value) -> Option<Error> {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let group = text(&definition["spec"]["group"]);
    let protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    if !protected {
        return None;
    }
    let path = Path::new("metadata").child("annotations").key(ANNOTATION);
    let demand = format!("protected groups must have approval annotation \"{ANNOTATION}\"");
    let approval = Meta::new(definition)
        .annotation(ANNOTATION)
        .unwrap_or_default();
    if approval.is_empty() {
        return Some(Error::required(&path, format!("{demand}, {SEE}")));
    }
    let is_url = approval.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty() && rest.split('/').next().is_some_and(|host| !host.is_empty())
    });
    if approval.starts_with("unapproved") || is_url {
        return None;
    }
    let why = format!("{demand} with either a URL or a reason starting with \"unapproved\", {SEE}");
    Some(Error::invalid(&path, approval, why))
}
