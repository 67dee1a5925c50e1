//! Limits how many requests are worked on at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::request::Request;
use crate::request::path::{Target, Verb};
use crate::request::user::MASTERS;

/// Subresources whose requests last as long as their clients want.
const LASTING: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// The most requests that a server works on at once. Others are refused with
/// 429, to be sent again in a second. Watches and other requests that last do not
/// count, and administrators always pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightLimits {
    /// The most requests that only read; 400 by default.
    pub reads: usize,
    /// The most requests that write; 200 by default.
    pub writes: usize,
}

impl Default for InFlightLimits {
    fn default() -> Self {
        InFlightLimits {
            reads: 400,
            writes: 200,
        }
    }
}

/// The requests in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    limits: InFlightLimits,
    reads: AtomicUsize,
    writes: AtomicUsize,
}

/// Counts a request as in flight until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard<'a>(Option<&'a AtomicUsize>);

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl InFlight {
    pub(crate) fn new(limits: InFlightLimits) -> Self {
        InFlight {
            limits,
            reads: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
        }
    }

    /// Counts an authenticated request as in flight; `None` if the limit is reached.
    pub(crate) fn acquire(&self, request: &Request) -> Option<InFlightGuard<'_>> {
        if lasts(request) || request.user.is_in(MASTERS) {
            return Some(InFlightGuard(None));
        }
        let reads = matches!(request.verb, Verb::Get | Verb::List)
            || matches!(request.target, Target::Other);
        let (count, limit) = if reads {
            (&self.reads, self.limits.reads)
        } else {
            (&self.writes, self.limits.writes)
        };
        let guard = InFlightGuard(Some(count));
        (count.fetch_add(1, Ordering::AcqRel) < limit).then_some(guard)
    }
}

/// Whether a request lasts as long as its client wants.
pub(crate) fn lasts(request: &Request) -> bool {
    let subresource = match &request.target {
        Target::Resource(path) => path.subresource.as_deref(),
        Target::Other => None,
    };
    request.verb == Verb::Watch || subresource.is_some_and(|name| LASTING.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::user::User;

    fn request(line: &str, user: User) -> Request {
        let (method, uri) = line.split_once(' ').unwrap();
        let builder = http::Request::builder().method(method).uri(uri);
        let mut request = Request::new(&builder.body(()).unwrap().into_parts().0);
        request.user = user;
        request
    }

    fn ann() -> User {
        User::new("ann", [] as [&str; 0])
    }

    #[test]
    fn reads_and_writes_have_places_of_their_own() {
        let in_flight = InFlight::new(InFlightLimits {
            reads: 1,
            writes: 1,
        });
        let read = request("GET /api/v1/nodes", ann());
        let write = request("POST /api/v1/nodes", ann());
        let first = in_flight.acquire(&read);
        assert!(first.is_some());
        assert!(in_flight.acquire(&read).is_none());
        assert!(in_flight.acquire(&write).is_some());
        drop(first);
        assert!(in_flight.acquire(&read).is_some());
    }

    #[test]
    fn what_lasts_and_who_administers_needs_no_place() {
        let in_flight = InFlight::new(InFlightLimits {
            reads: 0,
            writes: 0,
        });
        let passes = |line, user| in_flight.acquire(&request(line, user)).is_some();
        assert!(!passes("GET /api/v1/nodes", ann()));
        assert!(passes("GET /api/v1/nodes?watch=1", ann()));
        assert!(passes("GET /api/v1/namespaces/d/pods/p/log", ann()));
        assert!(passes("POST /api/v1/nodes", User::admin()));
    }
}
