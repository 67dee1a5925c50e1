//! Requests that make no sense: each is answered, none is a panic, nothing is kept.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use proptest::prelude::*;
use sendo_server::User;
use serde_json::Value;

use super::support::Fixture;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A request with parts of nonsense between parts that are right.
#[derive(Debug, Clone)]
struct Nonsense {
    method: &'static str,
    path: String,
    query: String,
    media_type: &'static str,
    accept: String,
    body: Vec<u8>,
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn nonsense() -> impl Strategy<Value = Nonsense> {
    let method = prop::sample::select(vec!["GET", "POST", "PUT", "PATCH", "DELETE"]);
    let word = || {
        prop_oneof![
            ".{0,12}".prop_map(|text| escaped(&text)),
            "[a-z./%~-]{0,12}"
        ]
    };
    let path = prop_oneof![
        Just(MAPS.to_owned()),
        word().prop_map(|word| format!("{MAPS}/{word}")),
        word().prop_map(|word| format!("/{word}")),
        word().prop_map(|word| format!("/apis/{word}/{word}/{word}")),
        word().prop_map(|word| format!("/openapi/v3/{word}")),
    ];
    let parameter = prop::sample::select(vec![
        "labelSelector",
        "fieldSelector",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "pretty",
        "gracePeriodSeconds",
        "propagationPolicy",
        "timeoutSeconds",
    ]);
    // Continue tokens are JSON in base64: of nonsense, and nearly right.
    let token = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..24),
        (any::<i64>(), ".{0,12}").prop_map(|(rv, start)| {
            let token = serde_json::json!({"v": "meta.k8s.io/v1", "rv": rv, "start": start});
            token.to_string().into_bytes()
        }),
    ];
    let token = token.prop_map(|bytes| {
        use base64::Engine as _;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
    });
    let value = prop_oneof![
        ".{0,16}".prop_map(|text| escaped(&text)),
        "[a-z0-9=!,()]{0,16}".prop_map(|text| escaped(&text)),
        token,
    ];
    let pair = (parameter, value).prop_map(|(name, value)| format!("{name}={value}"));
    let query = prop::collection::vec(pair, 0..3).prop_map(|pairs| pairs.join("&"));
    let media_type = prop::sample::select(vec![
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "text/plain",
    ]);
    let accept = prop_oneof![
        Just("application/json".to_owned()),
        Just("application/vnd.kubernetes.protobuf".to_owned()),
        "[a-z/;=,*]{0,20}",
    ];
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64),
        prop::collection::vec(any::<u8>(), 0..64).prop_map(|bytes| [b"k8s\0".to_vec(), bytes].concat()),
        "[\\[\\]{}\":,a-z0-9 \n&*<>-]{0,64}".prop_map(String::into_bytes),
        r#"\[\{"op":"(add|copy|move|test|remove|replace)","path":"[a-z0-9/~-]{0,9}","from":"[a-z0-9/~-]{0,9}","value":[0-9]\}\]"#
            .prop_map(String::into_bytes),
    ];
    let parts = (method, path, query, media_type, accept, body);
    parts.prop_map(|(method, path, query, media_type, accept, body)| Nonsense {
        method,
        path,
        query,
        media_type,
        accept,
        body,
    })
}

/// The code of the answer, and what it says of itself. `None` if HTTP has no such request.
async fn answer(f: &Fixture, nonsense: Nonsense) -> Option<(u16, Value)> {
    let request = http::Request::builder()
        .method(nonsense.method)
        .uri(format!("{}?{}", nonsense.path, nonsense.query))
        .header("content-type", nonsense.media_type)
        .header("accept", nonsense.accept)
        .body(Full::new(Bytes::from(nonsense.body)))
        .ok()?;
    let response = f.send(User::admin(), request).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.ok()?.to_bytes();
    Some((code, serde_json::from_slice(&bytes).unwrap_or_default()))
}

#[test]
fn nonsense_is_answered_and_leaves_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let f = runtime.block_on(Fixture::start());
    proptest!(ProptestConfig::with_cases(1500), |(nonsense in nonsense())| {
        let shown = format!("{nonsense:?}");
        let Some((code, body)) = runtime.block_on(answer(&f, nonsense)) else {
            return Ok(());
        };
        prop_assert!((200..600).contains(&code), "{code} for {shown}");
        prop_assert_ne!(&body["reason"], "InternalError", "{} for {}", body, shown);
    });
    let left = runtime.block_on(f.get(MAPS));
    assert_eq!(left.body["items"], serde_json::json!([]));
}
