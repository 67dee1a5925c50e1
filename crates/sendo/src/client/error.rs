//! Why a request to the API server did not succeed.

use kube::core::Status;

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
        /// What could not be encoded or decoded.
        #[source]
        cause: serde_json::Error,
    },
    /// The request was not sent, because it could not have been right.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// The status code and reason of an answer, `(0, "")` if there was none.
    fn answer(&self) -> (u16, &str) {
        match self {
            Error::Api(status) => (status.code, &status.reason),
            _ => (0, ""),
        }
    }

    /// The object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.answer() == (404, "NotFound")
    }

    /// An object of that name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.answer() == (409, "AlreadyExists")
    }

    /// The object has changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.answer() == (409, "Conflict")
    }

    /// The namespace is going away, so nothing can be created in it.
    pub fn is_namespace_terminating(&self) -> bool {
        let Error::Api(status) = self else {
            return false;
        };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes
            .into_iter()
            .any(|c| c.reason == "NamespaceTerminating")
    }
}
