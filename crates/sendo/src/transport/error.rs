//! Why a request to the API server did not succeed.

use std::time::Duration;

use kube::core::Status;
use kube::core::response::StatusDetails;

use crate::object::Kind;
use crate::owner::OwnerError;
use crate::rights::UndeclaredRequest;

/// Why a request did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused the request; its words are the message.
    #[error("{}", .0.message)]
    Api(Box<Status>),
    /// No answer: the connection failed, or the request took too long. Whether
    /// a write took place is not known.
    #[error("no answer from the API server for {request}: {cause}")]
    Transport {
        /// Method and path.
        request: String,
        /// What happened.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What was sent or received is not the object it should be.
    #[error("{request}: {cause}")]
    Codec {
        /// Method and path.
        request: String,
        /// What could not be encoded or decoded. Quotes nothing of the object.
        cause: String,
    },
    /// The request was not sent, because it could not have been right.
    #[error("{0}")]
    Refused(String),
    /// The request was not sent, because the object cannot have that owner.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The request was not sent, because the program does not declare it; see
    /// [`rights`](crate::rights).
    #[error(transparent)]
    Undeclared(#[from] UndeclaredRequest),
}

impl Error {
    /// A write that was not sent, as this process does not lead any more.
    pub(super) fn not_the_leader(request: impl std::fmt::Display) -> Self {
        Error::Refused(format!(
            "{request}: this process is not the leader any more, and only the leader may write"
        ))
    }

    /// The HTTP status code of the answer, 0 if there was none.
    pub fn code(&self) -> u16 {
        self.answer().0
    }

    /// The status code and reason of an answer, `(0, "")` if there was none.
    fn answer(&self) -> (u16, &str) {
        match self {
            Error::Api(status) => (status.code, &status.reason),
            _ => (0, ""),
        }
    }

    /// The object does not exist. Not true if the API server does not even
    /// know its kind: see [`Error::is_not_served`].
    pub fn is_not_found(&self) -> bool {
        self.code() == 404 && !self.is_not_served()
    }

    /// The API server does not serve this kind, version or subresource.
    ///
    /// It then answers 404 too, but names no object.
    pub fn is_not_served(&self) -> bool {
        let Error::Api(status) = self else {
            return false;
        };
        let details = status.details.as_ref();
        status.code == 404 && details.is_none_or(|details| details.name.is_empty())
    }

    /// Whoever this program is to the API server may not do this.
    pub fn is_forbidden(&self) -> bool {
        self.code() == 403
    }

    /// An object of that name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.answer() == (409, "AlreadyExists")
    }

    /// The object is not as its kind or its admission wants it: the same again
    /// is refused again. The message names the fields.
    pub fn is_invalid(&self) -> bool {
        self.answer() == (422, "Invalid")
    }

    /// The object has changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.answer() == (409, "Conflict")
    }

    /// This object does not exist, whatever the request.
    pub(crate) fn is_absence_of(&self, kind: &Kind, name: &str) -> bool {
        let Error::Api(status) = self else {
            return false;
        };
        let is_it = |details: &StatusDetails| {
            let kinds = [&kind.plural, &kind.kind];
            (&*details.name, &*details.group) == (name, &*kind.group)
                && kinds.contains(&&details.kind)
        };
        self.is_not_found() && status.details.as_ref().is_some_and(is_it)
    }

    /// How long the API server asks to wait before the request is sent again.
    pub fn retry_after(&self) -> Option<Duration> {
        let Error::Api(status) = self else {
            return None;
        };
        let seconds = status.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// The API server had too much to do to look at the request: it says so
    /// before anything of it is read, and in plain text rather than in a Status.
    pub(super) fn was_turned_away(&self) -> bool {
        self.answer() == (429, "")
    }

    /// What was written to is no more: it is gone, or another object has its name.
    ///
    /// Only for writes that name the object's uid. A conflict alone does not say
    /// it: an API server also answers with one if others keep changing the object,
    /// and admission may answer with anything. Where it comes from the uid, the
    /// words are those of `rest/delete.go` and `storage/interfaces.go`
    /// (Kubernetes: `apiserver/pkg/registry`, `apiserver/pkg/storage`).
    pub(crate) fn means_gone(&self) -> bool {
        let Error::Api(status) = self else {
            return false;
        };
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        let of_uid = causes.any(|cause| cause.field == "metadata.uid");
        let words = ["UID in precondition:", "the UID in the precondition ("];
        let in_words = words.iter().any(|words| status.message.contains(words));
        self.is_not_found() || (status.code == 422 && of_uid) || (self.is_conflict() && in_words)
    }

    /// The namespace is going away, so nothing can be created in it.
    pub fn is_namespace_terminating(&self) -> bool {
        let Error::Api(status) = self else {
            return false;
        };
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        causes.any(|cause| cause.reason == "NamespaceTerminating")
    }

    /// The namespace is going away, or is not there any more: what was to be
    /// created in it is not wanted.
    pub fn is_namespace_gone(&self) -> bool {
        let Error::Api(status) = self else {
            return false;
        };
        let mut about = status.details.iter();
        let is_absent = self.is_not_found() && about.any(|about| about.kind == "namespaces");
        is_absent || self.is_namespace_terminating()
    }
}

/// What is wrong with some JSON, without quoting it: it may be a Secret.
///
/// `serde_json` says what it expected and where, and often what it found.
pub(crate) fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let quotes_nothing = ["missing field", "duplicate field"];
    if quotes_nothing.iter().any(|start| text.starts_with(start)) {
        return text;
    }
    let place = format!("line {} column {}", error.line(), error.column());
    let without_place = text.split(" at line ").next().unwrap_or_default();
    match without_place.rsplit_once("expected ") {
        Some((_, expected)) => format!("expected {expected} at {place}"),
        None => format!("does not decode at {place}"),
    }
}

/// An object as JSON, to be compared or sent.
///
/// By way of its text, as that is how objects are written elsewhere: a second
/// way for each type would be a second time all of its code.
pub(crate) fn to_json<T: serde::Serialize>(object: &T) -> Result<serde_json::Value, Error> {
    let text = serde_json::to_vec(object);
    let json = text.and_then(|text| serde_json::from_slice(&text));
    json.map_err(|error| {
        let cause = without_values(&error);
        Error::Refused(format!("the object cannot be written as JSON: {cause}"))
    })
}
