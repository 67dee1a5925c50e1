//! Whole bodies, written by hand as a Go client sends them.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A length-delimited field.
fn bytes(number: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let length = varint(content.len() as u64);
    [varint(number << 3 | 2), length, content.to_vec()].concat()
}

/// A field that is a number.
fn number(number: u64, value: i64) -> Vec<u8> {
    [varint(number << 3), varint(value as u64)].concat()
}

/// A message of these fields.
fn message(number: u64, fields: &[Vec<u8>]) -> Vec<u8> {
    bytes(number, fields.concat())
}

fn body(api_version: &str, kind: &str, fields: &[Vec<u8>]) -> Vec<u8> {
    let type_meta = message(1, &[bytes(1, api_version), bytes(2, kind)]);
    [
        b"k8s\0".to_vec(),
        type_meta,
        message(2, fields),
        bytes(3, ""),
        bytes(4, ""),
    ]
    .concat()
}

fn decoded(api_version: &str, kind: &str, fields: &[Vec<u8>]) -> Result<Value, Error> {
    let body = body(api_version, kind, fields);
    decode(&Types::builtin(), &body).map(|(_, object)| object)
}

#[test]
fn what_is_encoded_decodes_to_the_same() {
    let types = Types::builtin();
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"a": "b"}},
        "spec": {"ports": [
            {"protocol": "TCP", "port": 80, "targetPort": "http"},
            {"protocol": "TCP", "port": 81, "targetPort": 8081},
        ]},
        "status": {"loadBalancer": {}},
    });
    let body = encode(&types, &service).unwrap();
    assert_eq!(decode(&types, &body).unwrap().1, service);
}

#[test]
fn an_event_carries_its_length_and_a_whole_body() {
    let types = Types::builtin();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let event = encode_event(&types, "ADDED", &object).unwrap();
    let (length, event) = event.split_at(4);
    assert_eq!(length, (event.len() as u32).to_be_bytes());
    let carried = encode(&types, &object).unwrap();
    let expected = [bytes(1, "ADDED"), message(2, &[bytes(1, carried)])].concat();
    assert_eq!(event, expected);
}

#[test]
fn what_has_no_message_is_not_encoded() {
    let types = Types::builtin();
    let table = json!({"apiVersion": "meta.k8s.io/v1", "kind": "Table", "rows": []});
    let custom = json!({"apiVersion": "example.dev/v1", "kind": "Widget"});
    assert_eq!(encode(&types, &table), None);
    assert_eq!(encode(&types, &custom), None);
}

#[test]
fn a_config_map_with_what_go_always_writes() {
    let meta = [
        bytes(1, "settings"),
        bytes(2, ""),
        bytes(3, "default"),
        number(7, 0),
        bytes(8, ""),
        message(11, &[bytes(1, "app"), bytes(2, "a")]),
        message(11, &[bytes(1, "bare")]),
    ];
    let fields = [
        message(1, &meta),
        message(2, &[bytes(1, "key"), bytes(2, "value")]),
        message(3, &[bytes(1, "raw"), bytes(2, [0, 255])]),
        message(3, &[bytes(1, "none")]),
    ];
    let expected = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "settings",
            "namespace": "default",
            "labels": {"app": "a", "bare": ""},
        },
        "data": {"key": "value"},
        "binaryData": {"none": "", "raw": "AP8="},
    });
    assert_eq!(decoded("v1", "ConfigMap", &fields), Ok(expected));
}

#[test]
fn types_with_an_encoding_of_their_own() {
    let limits = message(1, &[bytes(1, "cpu"), message(2, &[bytes(1, "100m")])]);
    let probe = [
        message(
            1,
            &[message(
                2,
                &[message(2, &[number(1, 1), number(2, 0), bytes(3, "http")])],
            )],
        ),
        number(2, 5),
    ];
    let container = [bytes(1, "c"), message(8, &[limits]), message(10, &probe)];
    let volume = [bytes(1, "v"), message(2, &[message(2, &[bytes(1, "")])])];
    let status = [message(7, &[number(1, 1_700_000_000), number(2, 5)])];
    let spec = [message(1, &volume), message(2, &container), number(4, 30)];
    let pod = decoded("v1", "Pod", &[message(2, &spec), message(3, &status)]).unwrap();
    let expected = json!({
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [{
            "name": "c",
            "resources": {"limits": {"cpu": "100m"}},
            "livenessProbe": {"httpGet": {"port": "http"}, "initialDelaySeconds": 5},
        }],
        "terminationGracePeriodSeconds": 30,
    });
    assert_eq!(pod["spec"], expected);
    assert_eq!(pod["status"]["startTime"], "2023-11-14T22:13:20Z");
}

#[test]
fn moments_in_microseconds_and_lists_inside_maps() {
    let renewed = message(4, &[number(1, 1), number(2, 2_500_999)]);
    let lease = decoded("coordination.k8s.io/v1", "Lease", &[message(2, &[renewed])]).unwrap();
    assert_eq!(lease["spec"]["renewTime"], "1970-01-01T00:00:01.002500Z");

    let extra = message(
        6,
        &[bytes(1, "k"), message(2, &[bytes(1, "a"), bytes(1, "b")])],
    );
    let kind = "CertificateSigningRequest";
    let request = decoded("certificates.k8s.io/v1", kind, &[message(2, &[extra])]).unwrap();
    assert_eq!(request["spec"]["extra"], json!({"k": ["a", "b"]}));
}

#[test]
fn a_schema_may_stand_beside_a_boolean_or_a_list() {
    let schema = [
        message(30, &[number(1, 1)]),
        message(24, &[message(2, &[bytes(5, "string")]), message(2, &[])]),
        message(32, &[bytes(1, "d"), message(2, &[bytes(2, "x")])]),
        message(8, &[bytes(1, r#"{"a": [1]}"#)]),
    ];
    let types = Types::builtin();
    let place = types
        .named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
        .unwrap();
    let expected = json!({
        "additionalProperties": true,
        "items": [{"type": "string"}, {}],
        "dependencies": {"d": ["x"]},
        "default": {"a": [1]},
    });
    assert_eq!(decode_message(place, &schema.concat()), Ok(expected));
    let closed = message(30, &[number(1, 0)]);
    assert_eq!(
        decode_message(place, &closed),
        Ok(json!({"additionalProperties": false}))
    );
}

#[test]
fn a_message_that_comes_twice_is_merged_and_numbers_may_be_packed() {
    let twice = [message(1, &[bytes(1, "a")]), message(1, &[bytes(3, "b")])];
    let map = decoded("v1", "ConfigMap", &twice).unwrap();
    assert_eq!(map["metadata"], json!({"name": "a", "namespace": "b"}));

    let packed = bytes(4, [varint(7), varint(300)].concat());
    let context = message(14, &[packed, number(4, 9)]);
    let pod = decoded("v1", "Pod", &[message(2, &[context])]).unwrap();
    assert_eq!(
        pod["spec"]["securityContext"]["supplementalGroups"],
        json!([7, 300, 9])
    );
}

#[test]
fn unknown_fields_are_ignored_and_wrong_ones_refused() {
    assert!(decoded("v1", "ConfigMap", &[number(900, 1)]).is_ok());
    let error = decoded("v1", "ConfigMap", &[number(1, 1)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "proto: wrong wireType = 0 for field metadata"
    );
    let error = decoded("v1", "Widget", &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"no kind "Widget" is registered for version "v1""#
    );
    assert_eq!(Envelope::parse(b"{}"), Err(Error::Prefix));
    assert_eq!(Envelope::parse(b""), Err(Error::Empty));
    assert_eq!(Envelope::parse(b"k8s\0"), Err(Error::Empty));
}

#[test]
fn discovery_is_written_though_no_resource_is_of_its_kind() {
    let resource = json!({
        "resource": "pods", "scope": "Namespaced", "singularResource": "pod",
        "responseKind": {"group": "", "version": "", "kind": "Pod"},
        "verbs": ["get"], "shortNames": ["po"],
        "subresources": [{"subresource": "log", "verbs": ["get"],
            "responseKind": {"group": "", "version": "", "kind": "Pod"}}],
    });
    let list = json!({
        "apiVersion": "apidiscovery.k8s.io/v2", "kind": "APIGroupDiscoveryList", "metadata": {},
        "items": [{"metadata": {"name": "g"}, "versions": [
            {"version": "v1", "resources": [resource], "freshness": "Current"},
        ]}],
    });
    let written = encode(&Types::builtin(), &list).unwrap();
    let kind = |number| message(number, &[bytes(1, ""), bytes(2, ""), bytes(3, "Pod")]);
    let log = message(8, &[bytes(1, "log"), kind(2), bytes(4, "get")]);
    let resource = [
        bytes(1, "pods"),
        kind(2),
        bytes(3, "Namespaced"),
        bytes(4, "pod"),
        bytes(5, "get"),
        bytes(6, "po"),
        log,
    ];
    let version = [bytes(1, "v1"), message(2, &resource), bytes(3, "Current")];
    let envelope = Envelope::parse(&written).unwrap();
    assert_eq!(envelope.kind, "APIGroupDiscoveryList");
    let version = message(2, &version);
    let found = envelope
        .raw
        .windows(version.len())
        .any(|own| own == version);
    assert!(found, "{:?}", envelope.raw);
}

#[test]
fn a_document_without_a_version_is_of_the_first() {
    let versions = json!({"kind": "APIVersions", "versions": ["v1"]});
    let written = encode(&Types::builtin(), &versions).unwrap();
    assert_eq!(written, body("", "APIVersions", &[bytes(1, "v1")]));
}

#[test]
fn nesting_is_bounded() {
    let types = Types::builtin();
    let place = types
        .named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
        .unwrap();
    let mut schema = Vec::new();
    for _ in 0..10_000 {
        schema = bytes(28, &schema);
    }
    assert_eq!(decode_message(place, &schema), Err(Error::Depth));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let types = Types::builtin();
        for kind in ["Pod", "Secret", "Event"] {
            let _ = decode_message(types.kind("v1", kind).unwrap(), &bytes);
        }
        let _ = Envelope::parse(&[b"k8s\0".to_vec(), bytes].concat());
    }

    #[test]
    fn plausible_messages_never_panic(
        fields in prop::collection::vec((1u64..40, prop::collection::vec(0u8..40, 0..40)), 0..12)
    ) {
        let nested: Vec<_> = fields.iter().map(|(number, content)| bytes(*number, content)).collect();
        let deeper: Vec<_> = fields.iter().map(|(number, _)| message(*number, &nested)).collect();
        let types = Types::builtin();
        for kind in ["Pod", "Service", "PersistentVolume"] {
            let _ = decode_message(types.kind("v1", kind).unwrap(), &nested.concat());
            let _ = decode_message(types.kind("v1", kind).unwrap(), &deeper.concat());
        }
    }
}
