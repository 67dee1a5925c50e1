//! A look at, and a say in, every request of a client.

use http::Method;

use super::error::Error;

/// Sees every request of a client that was given it; see
/// [`Client::with_interceptor`](crate::Client::with_interceptor).
///
/// For tests that make a certain write fail, for an audit, for a rule such as
/// "never delete in this namespace". Watches are not seen.
pub trait Interceptor: Send + Sync {
    /// Before a request is sent. An error is what the caller gets, and nothing is sent.
    fn before(&self, call: &Call<'_>) -> Result<(), Error> {
        let _ = call;
        Ok(())
    }

    /// After a request has ended, retries included. `outcome` has the bytes of the answer.
    fn after(&self, call: &Call<'_>, outcome: Result<&[u8], &Error>) {
        let _ = (call, outcome);
    }
}

/// A request, as an [`Interceptor`] sees it.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The HTTP method.
    pub method: &'a Method,
    /// The path, such as `/api/v1/namespaces/default/pods/web`.
    pub path: &'a str,
    /// The query, without its question mark.
    pub query: &'a str,
    /// What is sent. May be secret.
    pub body: &'a [u8],
}

/// Method and path; never the body.
impl std::fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}
