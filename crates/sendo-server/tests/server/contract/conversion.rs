//! The conversion webhooks of the tables: what is wrong with the answer follows from the path and
//! from the name of the object.

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use serde_json::{Value, json};

/// Answers a ConversionReview.
///
/// | path | what becomes of objects |
/// |---|---|
/// | `/rename` | `spec.color` of v1 is `spec.colour` of v2; an object `bad` cannot be converted |
/// | `/names` | as the name of the object says: see [`mistake`] |
/// | `/beta` | as `/rename`, in an answer without uid and kind |
pub(super) fn answer(request: Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> {
    let path = request.uri().path().to_owned();
    let review: Value = serde_json::from_slice(request.body()).expect("a review is JSON");
    let name = review["request"]["objects"][0]["metadata"]["name"].as_str();
    let name = name.unwrap_or_default().to_owned();
    async move {
        match (path.as_str(), name.as_str()) {
            ("/names", "never") => std::future::pending().await,
            ("/names", "broken") => {
                let mut response = Response::new(Bytes::from_static(b"broken"));
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                response
            }
            ("/names", "garbage") => Response::new(Bytes::from_static(b"{\"kind\":")),
            ("/names", "words") => Response::new(Bytes::from_static(b"this is no JSON")),
            ("/names", "binary") => Response::new(Bytes::from_static(b"\x1f\x8b\x08\0\xff")),
            ("/names", "large") => Response::new(vec![b' '; 10 << 20].into()),
            _ => Response::new(answered(&path, &review).to_string().into()),
        }
    }
    .boxed()
}

fn answered(path: &str, review: &Value) -> Value {
    let request = &review["request"];
    let objects = request["objects"].as_array().into_iter().flatten();
    let wanted = &request["desiredAPIVersion"];
    let is_bad = |object: &&Value| path == "/rename" && object["metadata"]["name"] == "bad";
    let bad = objects.clone().find(is_bad);
    let mut answer = json!({
        "kind": review["kind"], "apiVersion": review["apiVersion"],
        "response": {
            "uid": request["uid"],
            "result": {"status": "Success"},
            "convertedObjects": objects.map(|object| renamed(object, wanted)).collect::<Vec<_>>(),
        },
    });
    if bad.is_some() {
        answer["response"]["result"] = json!({"status": "Failure", "message": "it is bad"});
        answer["response"]["convertedObjects"] = json!([]);
    }
    match path {
        "/names" => mistake(&mut answer),
        "/beta" => {
            answer["kind"].take();
            answer["response"]["uid"].take();
        }
        _ => {}
    }
    answer
}

fn renamed(object: &Value, wanted: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = wanted.clone();
    let to_two = wanted
        .as_str()
        .is_some_and(|version| version.ends_with("/v2"));
    let (from, to) = match to_two {
        true => ("color", "colour"),
        false => ("colour", "color"),
    };
    if let Some(spec) = object["spec"].as_object_mut()
        && let Some(color) = spec.remove(from)
    {
        spec.insert(to.to_owned(), color);
    }
    object
}

/// Makes an answer wrong in the way that the name of its first object says.
fn mistake(answer: &mut Value) {
    let response = &mut answer["response"];
    let object = &response["convertedObjects"][0];
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match name.to_owned().as_str() {
        "response" => *response = Value::Null,
        "uid" => response["uid"] = "other".into(),
        "status" => response["result"]["status"] = "Succeeded".into(),
        "none" => response["convertedObjects"] = json!([]),
        "two" => response["convertedObjects"] = json!([object.clone(), object.clone()]),
        "text" => response["convertedObjects"] = json!(["text"]),
        "nothing" => response["convertedObjects"] = json!([null]),
        "kindless" => response["convertedObjects"] = json!([{"apiVersion": "v2"}]),
        "code" => response["result"]["code"] = "200".into(),
        "identity" => response["convertedObjects"][0]["metadata"]["uid"] = "other".into(),
        "version" => response["convertedObjects"][0]["apiVersion"] = "example.dev/v3".into(),
        "kind" => response["convertedObjects"][0]["kind"] = "Gadget".into(),
        "name" => response["convertedObjects"][0]["metadata"]["name"] = "other".into(),
        "space" => response["convertedObjects"][0]["metadata"]["namespace"] = "other".into(),
        "metadata" => response["convertedObjects"][0]["metadata"] = "text".into(),
        "label" => response["convertedObjects"][0]["metadata"]["labels"] = json!({"a": "b c"}),
        "number" => response["convertedObjects"][0]["metadata"]["annotations"] = json!({"a": 1}),
        "labels" => response["convertedObjects"][0]["metadata"]["labels"] = json!({"a": "b"}),
        "finalizers" => {
            response["convertedObjects"][0]["metadata"]["finalizers"] = json!(["example.dev/x"]);
            response["convertedObjects"][0]["metadata"]["generation"] = 7.into();
        }
        _ => {}
    }
}
