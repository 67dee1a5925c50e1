//! `/openapi/v3`: what is served, as OpenAPI documents.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::StatusCode;
use sendo_apimachinery::openapi::{self, Publisher};
use sendo_apimachinery::resources::Resources;

use crate::answer::{self, Answer};
use crate::openapi_descriptions::Descriptions;
use crate::request::Request;
use crate::server::Server;

/// Documents that were asked for, each with the hash it was made under.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    made: Mutex<BTreeMap<String, (String, Bytes)>>,
}

impl Documents {
    /// The document at `path`; made anew if the one at hand is of another hash.
    fn get_or_make(
        &self,
        path: &str,
        hash: &str,
        make: impl FnOnce() -> Option<Bytes>,
    ) -> Option<Bytes> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = made.get(path).filter(|(own, _)| own == hash) {
            return Some(bytes.clone());
        }
        let bytes = make()?;
        made.insert(path.to_owned(), (hash.to_owned(), bytes.clone()));
        Some(bytes)
    }
}

/// Answers a path below `/openapi/v3`; empty for the index.
pub(crate) fn answer(server: &Server, request: &Request, path: &str) -> Answer {
    let resources = Resources::builtin();
    let publisher = Publisher {
        types: &server.types,
        resources: &resources,
        describe: &|_, _| None,
    };
    if path.is_empty() {
        let built_in = publisher.paths().into_iter().map(|path| {
            let hash = publisher.hash(&path);
            (path, hash)
        });
        let index = openapi::index(built_in);
        return Answer::Text(StatusCode::OK, index.to_string());
    }
    if !publisher.paths().iter().any(|own| own == path) {
        return Answer::Empty(StatusCode::NOT_FOUND);
    }
    let hash = publisher.hash(path);
    if request
        .query
        .first("hash")
        .is_some_and(|asked| asked != hash)
    {
        return Answer::Redirect(format!("/openapi/v3/{path}?hash={hash}"));
    }
    let found = server
        .documents
        .get_or_make(path, &hash, || built_in(server, &resources, path));
    match found {
        Some(bytes) => Answer::Tagged { tag: hash, bytes },
        None => Answer::Empty(StatusCode::NOT_FOUND),
    }
}

fn built_in(server: &Server, resources: &Resources, path: &str) -> Option<Bytes> {
    let of_document = resources.iter().filter(|resource| {
        let root = if resource.group.is_empty() {
            "api"
        } else {
            "apis"
        };
        path == format!("{root}/{}", resource.api_version())
    });
    let descriptions = Descriptions::of(of_document);
    let describe = |kind: &str, field: Option<&str>| descriptions.get(kind, field);
    let publisher = Publisher {
        types: &server.types,
        resources,
        describe: &describe,
    };
    Some(answer::to_bytes(&publisher.document(path)?))
}
