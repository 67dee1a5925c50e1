//! The admission webhooks of the tables: the answer follows from the path and from the name of the
//! object.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use serde_json::{Value, json};

/// Below this path are the admission webhooks.
pub(super) const PATH: &str = "/admission/";

/// Answers an AdmissionReview.
///
/// | path | what is answered |
/// |---|---|
/// | `/admission/validate` | as the name of the object says: see [`decide`] |
/// | `/admission/mutate` | the same, and patches: see [`patch`] |
pub(super) fn answer(request: Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> {
    let review: Value = serde_json::from_slice(request.body()).expect("a review is JSON");
    let name = review["request"]["name"].as_str().unwrap_or_default();
    let plain = |code: StatusCode, body: &'static [u8]| {
        let mut response = Response::new(Bytes::from_static(body));
        *response.status_mut() = code;
        response
    };
    let response = match name {
        "words" => plain(StatusCode::OK, b"this is no JSON"),
        "binary" => plain(StatusCode::OK, b"\x1f\x8b\x08\0\xff"),
        "garbage" => plain(StatusCode::OK, b"{\"kind\":"),
        "nothing" => plain(StatusCode::OK, b""),
        "broken" => plain(StatusCode::INTERNAL_SERVER_ERROR, b"broken"),
        "gone" => plain(StatusCode::NOT_FOUND, b"gone"),
        "away" => plain(StatusCode::FOUND, b"elsewhere"),
        "large" => Response::new(vec![b' '; 10 << 20].into()),
        name => {
            let path = request.uri().path();
            Response::new(decided(path, name, &review).to_string().into())
        }
    };
    std::future::ready(response).boxed()
}

fn decided(path: &str, name: &str, review: &Value) -> Value {
    let mut answer = json!({
        "kind": review["kind"], "apiVersion": review["apiVersion"],
        "response": {"uid": review["request"]["uid"], "allowed": true},
    });
    decide(name, &mut answer);
    let response = &mut answer["response"];
    if path.ends_with("/mutate")
        && let Some(patch) = patch(name)
    {
        response["patch"] = STANDARD.encode(patch.to_string()).into();
        response["patchType"] = "JSONPatch".into();
    }
    match name {
        "untyped" => response["patchType"] = Value::Null,
        "merge" => response["patchType"] = "MergePatch".into(),
        "unreadable" => response["patch"] = STANDARD.encode("no JSON").into(),
        _ => {}
    }
    answer
}

/// Changes an answer that allows the request as the name of the object says.
fn decide(name: &str, answer: &mut Value) {
    let response = &mut answer["response"];
    match name {
        "denied" => response["allowed"] = false.into(),
        "unsaid" => response["allowed"] = Value::Null,
        "because" => {
            response["allowed"] = false.into();
            response["status"] = json!({"message": "because"});
        }
        "reason" => {
            response["allowed"] = false.into();
            response["status"] = json!({"reason": "Gone", "code": 200});
        }
        "teapot" => {
            response["allowed"] = false.into();
            response["status"] =
                json!({"message": "short and stout", "code": 418, "reason": "Conflict"});
        }
        "warned" => response["warnings"] = json!(["careful", "very"]),
        "absent" => *response = Value::Null,
        "uid" => response["uid"] = "other".into(),
        "yes" => response["allowed"] = "yes".into(),
        "code" => response["status"] = json!({"code": "403"}),
        "kindless" => {
            answer["kind"].take();
            answer["apiVersion"].take();
        }
        "other" => answer["kind"] = "ConversionReview".into(),
        _ => {}
    }
}

/// The patch that the name of an object stands for.
fn patch(name: &str) -> Option<Value> {
    Some(match name {
        "patched" | "untyped" | "merge" | "unreadable" => {
            json!([{"op": "add", "path": "/data/x", "value": "1"}])
        }
        "test" => json!([{"op": "test", "path": "/data/k", "value": "other"}]),
        "remove" => json!([{"op": "remove", "path": "/data/none"}]),
        "path" => json!([{"op": "add", "path": "/spec/x/y", "value": "1"}]),
        "unknown" => json!([{"op": "add", "path": "/nothing", "value": "1"}]),
        "type" => json!([{"op": "add", "path": "/data/x", "value": 1}]),
        "invalid" => json!([{"op": "add", "path": "/data/a b", "value": "1"}]),
        _ => return None,
    })
}
