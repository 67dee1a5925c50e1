//! Tests of decoding requests.

use std::sync::LazyLock;

use serde_json::json;

use super::*;
use crate::schema::Types;
use crate::{GroupVersionKind, Status};

static TYPES: LazyLock<Types> = LazyLock::new(Types::builtin);

fn expected(api_version: &str, kind: &str) -> GroupVersionKind {
    crate::GroupVersion::parse(api_version)
        .unwrap()
        .with_kind(kind)
}

fn read(
    body: &str,
    format: Format,
    validation: FieldValidation,
    kind: &GroupVersionKind,
) -> Result<Object, Status> {
    Body {
        bytes: body.as_bytes(),
        format,
        validation,
    }
    .built_in(kind, &TYPES)
}

fn json_of(api_version: &str, kind: &str, body: &str) -> Result<Object, Status> {
    read(
        body,
        Format::Json,
        FieldValidation::Warn,
        &expected(api_version, kind),
    )
}

fn refused(api_version: &str, kind: &str, body: &str) -> String {
    json_of(api_version, kind, body).unwrap_err().message
}

#[test]
fn nulls_unknown_and_empty_fields_go() {
    let object = json_of(
        "v1",
        "ConfigMap",
        r#"{"metadata": {"name": "a", "labels": null}, "data": {"k": "v", "n": null}, "binaryData": {}, "immutable": null, "nope": {"deep": [1]}}"#,
    )
    .unwrap();
    assert_eq!(
        object.value,
        json!({"metadata": {"name": "a"}, "data": {"k": "v", "n": ""}})
    );
    assert_eq!(object.warnings, [r#"unknown field "nope""#]);
}

#[test]
fn an_empty_list_stays_where_it_is_distinguished_from_none() {
    let body = r#"{"spec": {"behavior": {"scaleUp": {"policies": []}}, "metrics": []}}"#;
    let object = json_of("autoscaling/v2", "HorizontalPodAutoscaler", body).unwrap();
    assert_eq!(
        object.value["spec"],
        json!({"behavior": {"scaleUp": {"policies": []}}})
    );
}

#[test]
fn an_empty_list_is_no_less_than_another_where_any_json_may_stand() {
    let object = json_of("apps/v1", "ControllerRevision", r#"{"data": []}"#).unwrap();
    assert_eq!(object.value, json!({"data": []}));
}

#[test]
fn an_eviction_is_read_in_the_version_before_its_own() {
    let body = r#"{"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"}}"#;
    assert!(json_of("policy/v1", "Eviction", body).is_ok());
    let body = body.replace("Eviction", "PodDisruptionBudget");
    assert_eq!(
        refused("policy/v1", "PodDisruptionBudget", &body),
        "the API version in the data (policy/v1beta1) does not match the expected API version (policy/v1)"
    );
}

#[test]
fn a_map_of_times_is_called_as_go_calls_it() {
    let body = r#"{"status": {"disruptedPods": []}}"#;
    assert_eq!(
        refused("policy/v1", "PodDisruptionBudget", body),
        "PodDisruptionBudget in version \"v1\" cannot be handled as a PodDisruptionBudget: json: cannot unmarshal \
         array into Go struct field PodDisruptionBudgetStatus.status.disruptedPods of type map[string]v1.Time"
    );
}

#[test]
fn a_body_that_names_no_kind_has_the_expected_one() {
    for body in ["{}", "null"] {
        let object = json_of("apps/v1", "Deployment", body).unwrap();
        assert_eq!(object.kind, expected("apps/v1", "Deployment"));
        assert_eq!(object.value, json!({}));
    }
}

#[test]
fn problems_are_reported_in_the_order_of_the_document() {
    let body = r#"{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "name": "d", "imag": 1}], "nodeNam": "x"}, "z": 1, "a": 2, "z": 3}"#;
    let object = json_of("v1", "Pod", body).unwrap();
    assert_eq!(
        object.warnings,
        [
            r#"duplicate field "spec.containers[0].name""#,
            r#"unknown field "spec.containers[0].imag""#,
            r#"unknown field "spec.nodeNam""#,
            r#"unknown field "z""#,
            r#"unknown field "a""#,
        ]
    );
    assert_eq!(object.value["spec"]["containers"], json!([{"name": "d"}]));
}

#[test]
fn strict_refuses_and_ignore_says_nothing() {
    let kind = expected("v1", "ConfigMap");
    let body = r#"{"data": {"k": "1", "k": "2"}, "nope": 1}"#;
    assert_eq!(
        read(body, Format::Json, FieldValidation::Strict, &kind)
            .unwrap_err()
            .message,
        r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: duplicate field "data.k", unknown field "nope""#
    );
    let object = read(body, Format::Json, FieldValidation::Ignore, &kind).unwrap();
    assert_eq!(
        (object.value, object.warnings.len()),
        (json!({"data": {"k": "2"}}), 0)
    );
}

#[test]
fn yaml_tells_repeated_keys_by_their_line() {
    let kind = expected("v1", "ConfigMap");
    let body = "metadata:\n  name: a\ndata:\n  k: \"1\"\n  k: \"2\"\nnope: 1\n";
    let object = read(body, Format::Yaml, FieldValidation::Warn, &kind).unwrap();
    assert_eq!(
        object.warnings,
        [
            "line 5: key \"k\" already set in map",
            "unknown field \"nope\""
        ]
    );
    assert_eq!(
        read(body, Format::Yaml, FieldValidation::Strict, &kind)
            .unwrap_err()
            .message,
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n  line 5: key \"k\" already set in map, unknown field \"nope\""
    );
}

#[test]
fn a_repeated_object_grows() {
    let object = json_of(
        "v1",
        "ConfigMap",
        r#"{"metadata": {"name": "a"}, "metadata": {"namespace": "b"}}"#,
    )
    .unwrap();
    assert_eq!(
        object.value,
        json!({"metadata": {"name": "a", "namespace": "b"}})
    );
}

#[test]
fn values_get_the_form_go_gives_them() {
    let object = json_of(
        "v1",
        "Pod",
        r#"{"metadata": {"creationTimestamp": "2001-02-03T04:05:06+01:00"}, "spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": "1000m", "memory": 1024, "x": null}}, "args": [null, "a"], "livenessProbe": {"httpGet": {"port": "http"}}}
        ]}}"#,
    )
    .unwrap();
    assert_eq!(
        object.value,
        json!({"metadata": {"creationTimestamp": "2001-02-03T03:05:06Z"}, "spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1024", "x": "0"}}, "args": ["", "a"], "livenessProbe": {"httpGet": {"port": "http"}}}
        ]}})
    );
}

#[test]
fn wrong_types_are_reported_with_the_messages_of_go() {
    let cases = [
        (
            "v1",
            "ConfigMap",
            r#"{"data": {"k": 1}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "v1",
            "ConfigMap",
            r#"{"data": ["x"]}"#,
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            "v1",
            "ConfigMap",
            r#"{"metadata": {"managedFields": "x"}}"#,
            "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.managedFields of type []v1.ManagedFieldsEntry",
        ),
        (
            "v1",
            "Pod",
            r#"{"spec": []}"#,
            "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec",
        ),
        (
            "v1",
            "Pod",
            r#"{"spec": {"containers": [{"command": "x"}]}}"#,
            "json: cannot unmarshal string into Go struct field Container.spec.containers.command of type []string",
        ),
        (
            "v1",
            "Pod",
            r#"{"spec": {"containers": [{"ports": [{"containerPort": "x"}]}]}}"#,
            "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            "v1",
            "Pod",
            r#"{"spec": {"hostNetwork": "x"}}"#,
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (
            "v1",
            "Pod",
            r#"{"spec": {"restartPolicy": 1}}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        (
            "v1",
            "Pod",
            r#"{"spec": {"volumes": [{"configMap": {"items": {}}}]}}"#,
            "json: cannot unmarshal object into Go struct field ConfigMapVolumeSource.spec.volumes.VolumeSource.configMap.items of type []v1.KeyToPath",
        ),
        (
            "v1",
            "Pod",
            r#"{"spec": {"containers": [{"resources": {"limits": []}}]}}"#,
            "json: cannot unmarshal array into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            r#"{"spec": {"accessModes": [1]}}"#,
            "json: cannot unmarshal number into Go struct field PersistentVolumeClaimSpec.spec.accessModes of type v1.PersistentVolumeAccessMode",
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            r#"{"spec": {"accessModes": ""}}"#,
            "json: cannot unmarshal string into Go struct field PersistentVolumeClaimSpec.spec.accessModes of type []v1.PersistentVolumeAccessMode",
        ),
        (
            "v1",
            "Secret",
            r#"{"data": {"k": 1}}"#,
            "json: cannot unmarshal number into Go struct field Secret.data of type []uint8",
        ),
        (
            "v1",
            "Secret",
            r#"{"data": {"k": "a!=="}}"#,
            "illegal base64 data at input byte 1",
        ),
        (
            "apps/v1",
            "Deployment",
            r#"{"spec": {"replicas": 2147483648}}"#,
            "json: cannot unmarshal number 2147483648 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps/v1",
            "Deployment",
            r#"{"spec": {"replicas": 2.0}}"#,
            "json: cannot unmarshal number 2.0 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps/v1",
            "Deployment",
            r#"{"spec": {"replicas": "x", "strategy": {"rollingUpdate": {"maxSurge": 1.5}}}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
        ),
        (
            "coordination.k8s.io/v1",
            "Lease",
            r#"{"spec": {"renewTime": "2001-01-01T00:00:00Z"}}"#,
            r#"parsing time "2001-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
        ),
    ];
    for (api_version, kind, body, message) in cases {
        let version = api_version.rsplit('/').next().unwrap();
        assert_eq!(
            refused(api_version, kind, body),
            format!("{kind} in version {version:?} cannot be handled as a {kind}: {message}"),
            "{body}"
        );
    }
}

#[test]
fn bodies_that_are_no_such_object_are_refused() {
    let cases = [
        (
            "",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)",
        ),
        (
            "[]",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" } (5b5d)",
        ),
        (
            r#"{"apiVersion": "a/b/c", "kind": "ConfigMap"}"#,
            r#"the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion string: a/b/c ({"apiVersion": "a/b/c", "kind" ...)"#,
        ),
        (
            r#"{"apiVersion": 1}"#,
            r#"the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .apiVersion of type string ({"apiVersion": 1})"#,
        ),
        (
            r#"{"kind": "Secret"}"#,
            r#"Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion"#,
        ),
        (
            r#"{"kind": "Nothing"}"#,
            r#"Nothing in version "v1" cannot be handled as a ConfigMap: no kind "Nothing" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111""#,
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(refused("v1", "ConfigMap", body), expected, "{body}");
    }
}

#[test]
fn another_version_of_the_kind_is_refused() {
    assert_eq!(
        refused(
            "autoscaling/v1",
            "HorizontalPodAutoscaler",
            r#"{"apiVersion": "autoscaling/v2"}"#
        ),
        "the API version in the data (autoscaling/v2) does not match the expected API version (autoscaling/v1)"
    );
}

#[test]
fn a_custom_object_names_its_kind_and_is_pruned() {
    let kind = expected("example.dev/v1", "Widget");
    let body = |bytes: &'static str| Body {
        bytes: bytes.as_bytes(),
        format: Format::Json,
        validation: FieldValidation::Strict,
    };
    let keep_all = |_: &mut Value| Ok(Vec::new());
    assert_eq!(
        body(r#"{"metadata": {"name": "a"}}"#)
            .custom(&kind, keep_all)
            .unwrap_err()
            .message,
        r#"the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in '{"metadata": {"name": "a"}}' ({"metadata": {"name": "a"}})"#
    );
    let whole = body(r#"{"apiVersion": "example.dev/v1", "kind": "Widget", "spec": {"i": 1.0}}"#);
    assert_eq!(
        whole.custom(&kind, keep_all).unwrap().value["spec"],
        json!({"i": 1.0})
    );
    assert_eq!(
        whole
            .custom(&kind, |_| Ok(vec!["spec.i".to_owned()]))
            .unwrap_err()
            .message,
        r#"Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.i""#
    );
}

#[test]
fn deep_nesting_is_skipped_where_unknown_and_refused_where_kept() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let unknown = format!(r#"{{"metadata": {{"name": "b"}}, "x": {}}}"#, deep(5000));
    assert_eq!(
        json_of("v1", "ConfigMap", &unknown).unwrap().warnings.len(),
        1
    );
    assert!(untyped(deep(5000).as_bytes(), Format::Json).is_err());
}

#[test]
fn a_value_changed_in_the_server_is_typed_again() {
    let schema = TYPES.kind("v1", "ConfigMap").unwrap();
    let decoded = typed(
        json!({"data": {"k": "v"}, "nope": 1, "metadata": null}),
        schema,
    )
    .unwrap();
    assert_eq!(decoded.value, json!({"data": {"k": "v"}}));
    assert_eq!(
        decoded.strict_error().unwrap(),
        r#"strict decoding error: unknown field "nope""#
    );
}

/// What may stand between two braces: much of it JSON, much of it only nearly.
fn nearly_json() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let text = prop_oneof![
        "[ -~]{0,8}".prop_map(|text| json!(text).to_string()),
        Just(r#""\u00e9\/""#.to_owned()),
        Just(r#""<<""#.to_owned()),
        Just(r#""a""#.to_owned()),
    ];
    let scalar = prop_oneof![
        text.clone(),
        any::<i64>().prop_map(|number| number.to_string()),
        prop::sample::select(vec![
            "1.0", "-0", "1e3", "0x10", "01", "null", "~", "true", "yes", "a"
        ])
        .prop_map(str::to_owned),
    ];
    let value = scalar.prop_recursive(3, 16, 3, move |inner| {
        let member = (
            text.clone(),
            prop_oneof![Just(":"), Just(": "), Just(" :\n ")],
            inner.clone(),
        );
        let member = member.prop_map(|(name, colon, value)| format!("{name}{colon}{value}"));
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(member, 0..3)
                .prop_map(|members| format!("{{{}}}", members.join(", "))),
        ]
    });
    value.prop_map(|value| format!("{{\"v\": {value}}}"))
}

#[test]
fn json_is_distinguished_from_other_yaml() {
    assert!(body::json_in_yaml(br#"{"a": [1, "x", null, true], "b": {}}"#).is_some());
    for other in [
        r#"{"a": 1.5}"#,
        r#"{"a": 1, "a": 2}"#,
        r#"{"<<": {"a": 1}}"#,
        "{\"a\":\t1}",
        "{a: 1}",
        "a: 1",
        r#"{"a": "\u0041"}"#,
    ] {
        assert!(body::json_in_yaml(other.as_bytes()).is_none(), "{other}");
    }
}

type Reads<'a> = &'a dyn Fn(Body<'_>) -> Result<Value, String>;

#[test]
fn every_way_to_read_yaml_counts_what_aliases_expand_to() {
    /// A document that says a text once, and `count` times by an alias.
    fn document(count: usize) -> String {
        let text = "x".repeat(40_000);
        let mut document = format!("kind: ConfigMap\napiVersion: v1\nx:\n- &a {text}\n");
        document += &"- *a\n".repeat(count);
        document
    }
    let kind = expected("v1", "ConfigMap");
    let ways: [(&str, Reads<'_>); 4] = [
        ("a built-in kind", &|body| {
            let read = body.built_in(&kind, &TYPES);
            read.map(|o| o.value).map_err(|status| status.message)
        }),
        ("a custom kind", &|body| {
            let read = body.custom(&kind, |_| Ok(Vec::new()));
            read.map(|o| o.value).map_err(|status| status.message)
        }),
        ("options of a deletion", &|body| {
            let bytes = String::from_utf8_lossy(body.bytes);
            let options = bytes.replace("ConfigMap", "DeleteOptions");
            let body = Body {
                bytes: options.as_bytes(),
                ..body
            };
            body.delete_options(&TYPES).map_err(|e| e.to_string())
        }),
        ("an apply", &|body| {
            let read = untyped(body.bytes, body.format);
            read.map(|d| d.value).map_err(|e| e.to_string())
        }),
    ];
    for (what, read) in ways {
        let read = |text: &str| {
            read(Body {
                bytes: text.as_bytes(),
                format: Format::Yaml,
                validation: FieldValidation::Ignore,
            })
        };
        let value = read(&document(70)).expect(what);
        assert!(value.to_string().len() <= BODY_LIMIT, "{what}");
        let why = read(&document(80)).expect_err(what);
        let expected = "yaml: document contains excessive aliasing";
        assert!(why.contains(expected) && why.len() < 1000, "{what}: {why}");
    }
}

proptest::proptest! {
    #[test]
    fn json_in_yaml_is_what_yaml_reads(text in nearly_json()) {
        if let Some(soon) = body::json_in_yaml(text.as_bytes()) {
            let parsed = body::Parsed::parse(text.as_bytes(), Format::Yaml);
            proptest::prop_assert_eq!(parsed.and_then(body::Parsed::untyped), Ok(soon));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(body: Vec<u8>, yaml: bool) {
        let format = if yaml { Format::Yaml } else { Format::Json };
        let body = Body { bytes: &body, format, validation: FieldValidation::Warn };
        let _ = body.built_in(&expected("v1", "Pod"), &TYPES);
    }
}
