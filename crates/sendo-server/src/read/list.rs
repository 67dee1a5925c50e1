//! Reads a collection, whole or in pages.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use http::StatusCode;
use sendo_apimachinery::Status;
use sendo_apimachinery::decode::{self as reader, Format};
use sendo_apimachinery::patch::json_type;
use sendo_store::{At, Error, KeyRange, Page, Revision};
use serde::Serialize;
use serde_json::Value;

use crate::catalog::storage::backend;
use crate::read::answer::{self, ApiResponse};
use crate::read::get;
use crate::read::selection::Selection;
use crate::read::view::{self, List, Stored};
use crate::request::options::{ListOptions, VersionMatch};
use crate::state::call::Call;

/// Reads the objects of a collection that the selectors choose.
pub(crate) async fn list(call: &Call<'_>) -> Result<ApiResponse, Status> {
    let options = ListOptions::parse(&call.request.query, false)?;
    let selection = Selection::new(call.resource, &options)?;
    match collect(call, &options, &selection).await {
        Ok(found) => view::list(call, found),
        Err(Stopped::Refused(status)) => Err(status),
        Err(Stopped::Expired { token }) => Ok(expired(&token)),
    }
}

/// Why a collection was not read.
#[derive(Debug)]
pub(crate) enum Stopped {
    Refused(Status),
    /// The snapshot that a continue token names is gone; `token` goes on without it.
    Expired {
        token: String,
    },
}

impl From<Status> for Stopped {
    fn from(status: Status) -> Self {
        Stopped::Refused(status)
    }
}

/// A continue token: where the next page starts, in which state.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Token {
    v: String,
    /// The revision of the first page; -1 for "whatever is newest".
    rv: i64,
    /// The first key that may come, without the collection's prefix.
    start: String,
}

impl Token {
    /// Reads a token that anybody may have written; what is left out is empty.
    fn read(value: &Value) -> Result<Self, String> {
        let wrong = |value: &Value, place: &str| {
            let found = match value {
                Value::Number(number) if number.is_f64() => format!("number {number}"),
                other => json_type(other).to_owned(),
            };
            format!("json: cannot unmarshal {found} into Go {place}")
        };
        let text = |name: &str| match &value[name] {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            other => Err(wrong(
                other,
                &format!("struct field continueToken.{name} of type string"),
            )),
        };
        if !value.is_object() && !value.is_null() {
            return Err(wrong(value, "value of type storage.continueToken"));
        }
        let rv = match &value["rv"] {
            Value::Null => Some(0),
            other => other.as_i64(),
        };
        let of_rv = "struct field continueToken.rv of type int64";
        Ok(Token {
            v: text("v")?,
            rv: rv.ok_or_else(|| wrong(&value["rv"], of_rv))?,
            start: text("start")?,
        })
    }
}

/// Tokens are read as Go reads them, which minds no bits that are left over.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);
const TOKEN_VERSION: &str = "meta.k8s.io/v1";
const NEWEST: i64 = -1;

/// Reads one page of a selection.
pub(crate) async fn collect(
    call: &Call<'_>,
    options: &ListOptions,
    selection: &Selection,
) -> Result<List, Stopped> {
    let prefix = call.resource.keys.collection(call.namespace());
    let (at, start, limit) = plan(call, options).await?;
    let mut range = match selection
        .name()
        .filter(|_| call.namespace().is_some() || !call.resource.is_namespaced())
    {
        Some(name) => KeyRange::one(call.resource.keys.object(call.namespace(), name)),
        None => KeyRange::prefix(&prefix),
    };
    if !start.is_empty() {
        range.from = std::ops::Bound::Included(format!("{prefix}{start}").into());
    }

    let mut at = at;
    let mut items = Vec::new();
    loop {
        let wanted = limit.map(|limit| limit - items.len());
        let page = call.server.store.range(range.clone(), at, wanted).await;
        let page = page.map_err(|error| refuse(call, options, &start, error))?;
        // All pages of one answer show one state.
        at = At::Revision(page.revision);
        let last = page.entries.last().map(|entry| entry.key.clone());
        items.extend(chosen(call, selection, &page).await?);
        let more = page.remaining > 0;
        if let Some(last) = last.filter(|_| more) {
            if limit.is_none_or(|limit| items.len() < limit) {
                range = KeyRange::after(&last, &prefix);
                continue;
            }
            let start = format!("{}\0", &last[prefix.len()..]);
            let remaining = Some(page.remaining).filter(|_| selection.is_everything());
            let continue_token = token(page.revision.0 as i64, start);
            return Ok(List {
                items,
                at: page.revision,
                continue_token,
                remaining,
            });
        }
        return Ok(List {
            items,
            at: page.revision,
            continue_token: String::new(),
            remaining: None,
        });
    }
}

/// The objects of a page that are selected, in the version of the request.
async fn chosen(
    call: &Call<'_>,
    selection: &Selection,
    page: &Page,
) -> Result<Vec<Stored>, Status> {
    let entries = page.entries.iter();
    let may_match = entries.filter(|entry| selection.may_match(&entry.key));
    let stored = may_match.map(|entry| Stored::from(&**entry)).collect();
    let mut stored = call.server.in_version(call.resource, stored).await?;
    if !selection.is_everything() {
        stored.retain(|item| selection.matches(&call.resource.decode(&item.value, item.at)));
    }
    Ok(stored)
}

/// Which state to read, from which key on, and how much of it.
async fn plan(
    call: &Call<'_>,
    options: &ListOptions,
) -> Result<(At, String, Option<usize>), Stopped> {
    // Version 0 takes any state there is, and then all of it.
    let limit = options.limit.filter(|_| options.resource_version != "0");
    if !options.continue_token.is_empty() {
        let token = read_token(&options.continue_token)?;
        if !matches!(options.resource_version.as_str(), "" | "0") {
            let why = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(why).into());
        }
        let at = match u64::try_from(token.rv) {
            Ok(revision) if revision > 0 => At::Revision(Revision(revision)),
            _ => At::Latest,
        };
        return Ok((at, token.start, limit));
    }
    let version = get::version(&options.resource_version).map_err(|status| {
        Status::bad_request(format!("invalid resource version: {}", status.message))
    })?;
    let exact = match options.version_match {
        Some(VersionMatch::Exact) => true,
        Some(VersionMatch::NotOlderThan) => false,
        None => version > Revision(0) && options.limit.is_some(),
    };
    call.server.reach(version).await?;
    if exact {
        return Ok((At::Revision(version), String::new(), options.limit));
    }
    Ok((At::Latest, String::new(), limit))
}

fn refuse(call: &Call<'_>, options: &ListOptions, start: &str, error: Error) -> Stopped {
    match error {
        Error::Compacted { .. } if !options.continue_token.is_empty() => Stopped::Expired {
            token: token(NEWEST, start.to_owned()),
        },
        Error::Compacted { .. } => {
            Status::expired("The resourceVersion for the provided list is too old.").into()
        }
        Error::Future { requested, .. } => {
            Status::resource_version_too_large(requested.0, call.server.store.revision().0).into()
        }
        other => backend(other).into(),
    }
}

/// 410, with a token to go on with what is newest.
pub(crate) fn expired(token: &str) -> ApiResponse {
    let mut status = Status::expired(concat!(
        "The provided continue parameter is too old to display a consistent list result. ",
        "You can start a new list without the continue parameter, or use the continue token in this ",
        "response to retrieve the remainder of the results. Continuing with the provided token results ",
        "in an inconsistent list - objects that were created, modified, or deleted between the time the ",
        "first chunk was returned and now may show up in the list.",
    ))
    .to_json();
    status["metadata"]["continue"] = token.into();
    ApiResponse::Json(StatusCode::GONE, answer::to_bytes(&status))
}

fn token(rv: i64, start: String) -> String {
    let token = Token {
        v: TOKEN_VERSION.to_owned(),
        rv,
        start,
    };
    BASE64.encode(serde_json::to_vec(&token).expect("a token is plain data"))
}

/// Where Go finds base64 without padding to be broken: at a character that is none, or where the
/// last group starts, which is then too short.
fn broken_at(text: &str) -> usize {
    let digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let strange = text.bytes().position(|byte| !digit(byte));
    strange.unwrap_or_else(|| text.len().saturating_sub(1) / 4 * 4)
}

fn read_token(text: &str) -> Result<Token, Status> {
    let refuse = |why: &str| Status::bad_request(format!("invalid continue token: {why}"));
    let bytes = BASE64.decode(text).map_err(|_| {
        let place = broken_at(text);
        refuse(&format!(
            "continue key is not valid: illegal base64 data at input byte {place}"
        ))
    })?;
    let invalid = |why: &str| refuse(&format!("continue key is not valid: {why}"));
    let parsed = reader::untyped(&bytes, Format::Json).map_err(|e| invalid(&e.to_string()))?;
    let mut token = Token::read(&parsed.value).map_err(|fault| invalid(&fault))?;
    if token.v != TOKEN_VERSION {
        return Err(invalid(&format!(
            "server does not recognize this encoded version {}",
            token.v
        )));
    }
    if token.rv == 0 {
        return Err(invalid(
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ));
    }
    if token.start.is_empty() {
        return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
    }
    // A start outside of the collection would read other collections.
    let start = token.start.strip_prefix('/').unwrap_or(&token.start);
    if start.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(invalid(&token.start));
    }
    token.start = start.to_owned();
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_back() {
        let text = token(7, "ns/a\0".to_owned());
        let expected = Token {
            v: TOKEN_VERSION.to_owned(),
            rv: 7,
            start: "ns/a\0".to_owned(),
        };
        assert_eq!(read_token(&text).unwrap(), expected);
        let json = BASE64.decode(text).unwrap();
        assert_eq!(
            json,
            br#"{"v":"meta.k8s.io/v1","rv":7,"start":"ns/a\u0000"}"#
        );
    }

    #[test]
    fn broken_tokens_are_refused_with_the_messages_of_go() {
        for (text, place) in [("x", 0), ("abcde", 4), ("ab!d", 2), ("abc=", 3)] {
            let message = read_token(text).unwrap_err().message;
            let end = format!("illegal base64 data at input byte {place}");
            assert!(message.ends_with(&end), "{text}: {message}");
        }
    }

    #[test]
    fn foreign_tokens_are_refused() {
        for text in ["garbage", "bm9uc2Vuc2U", ""] {
            assert_eq!(read_token(text).unwrap_err().code, 400, "{text}");
        }
        let cases = [
            ("null", "server does not recognize this encoded version "),
            (
                r#"{"v": "v0"}"#,
                "does not recognize this encoded version v0",
            ),
            (
                r#"{"v": 1}"#,
                "unmarshal number into Go struct field continueToken.v of type string",
            ),
            (
                "[]",
                "unmarshal array into Go value of type storage.continueToken",
            ),
            (
                r#"{"v": "meta.k8s.io/v1"}"#,
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                r#"{"v": "meta.k8s.io/v1", "rv": 1.5}"#,
                "number 1.5 into Go struct field continueToken.rv of type int64",
            ),
            (
                r#"{"v": "meta.k8s.io/v1", "rv": 1}"#,
                "encoded start key empty (version meta.k8s.io/v1)",
            ),
            (
                r#"{"v": "meta.k8s.io/v1", "rv": 1, "start": "../secrets/a"}"#,
                "not valid: ../secrets/a",
            ),
            (
                r#"{"v": "meta.k8s.io/v1", "rv": 1, "start": "a//b"}"#,
                "not valid: a//b",
            ),
        ];
        for (token, end) in cases {
            let message = read_token(&BASE64.encode(token)).unwrap_err().message;
            assert!(message.ends_with(end), "{token}: {message}");
        }
    }
}
