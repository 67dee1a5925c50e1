//! Limits how many requests are worked on at once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sendo_world::Moment;

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
    reads: Count,
    writes: Count,
}

/// The requests in flight of one kind.
#[derive(Debug, Default)]
struct Count {
    /// Those that the limit is for.
    limited: AtomicUsize,
    /// All that do not last, those of administrators too.
    all: AtomicUsize,
    most: Watermark,
}

/// The most of each second, as it is reported.
#[derive(Debug, Default)]
struct Watermark {
    /// The second that `now` is of.
    second: AtomicU64,
    now: AtomicUsize,
    /// The most of the second before it.
    before: AtomicUsize,
}

impl Watermark {
    fn note(&self, second: u64, count: usize) {
        let noted = self.second.load(Ordering::Relaxed);
        if noted < second
            && (self.second)
                .compare_exchange(noted, second, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            let most = self.now.swap(0, Ordering::Relaxed);
            let follows = noted + 1 == second;
            self.before
                .store(if follows { most } else { 0 }, Ordering::Relaxed);
        }
        self.now.fetch_max(count, Ordering::Relaxed);
    }

    /// The most of the last second that is over.
    fn last(&self, second: u64) -> usize {
        match second.checked_sub(self.second.load(Ordering::Relaxed)) {
            Some(0) => self.before.load(Ordering::Relaxed),
            Some(1) => self.now.load(Ordering::Relaxed),
            _ => 0,
        }
    }
}

/// Counts a request as in flight until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard<'a> {
    count: Option<&'a Count>,
    is_limited: bool,
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.count {
            count.all.fetch_sub(1, Ordering::AcqRel);
            if self.is_limited {
                count.limited.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}

fn second_of(moment: Moment) -> u64 {
    moment.since(Moment::START).as_secs()
}

impl InFlight {
    pub(crate) fn new(limits: InFlightLimits) -> Self {
        InFlight {
            limits,
            reads: Count::default(),
            writes: Count::default(),
        }
    }

    /// Counts an authenticated request as in flight; `None` if the limit is reached.
    pub(crate) fn acquire(&self, request: &Request, now: Moment) -> Option<InFlightGuard<'_>> {
        if lasts(request) {
            return Some(InFlightGuard {
                count: None,
                is_limited: false,
            });
        }
        let reads = matches!(request.verb, Verb::Get | Verb::List)
            || matches!(request.target, Target::Other);
        let (count, limit) = if reads {
            (&self.reads, self.limits.reads)
        } else {
            (&self.writes, self.limits.writes)
        };
        let is_limited = !request.user.is_in(MASTERS);
        let guard = InFlightGuard {
            count: Some(count),
            is_limited,
        };
        let all = count.all.fetch_add(1, Ordering::AcqRel) + 1;
        count.most.note(second_of(now), all);
        let passes = !is_limited || count.limited.fetch_add(1, Ordering::AcqRel) < limit;
        passes.then_some(guard)
    }

    /// The most requests that only read and that write, in the last second that is over.
    pub(crate) fn most(&self, now: Moment) -> (usize, usize) {
        let second = second_of(now);
        (self.reads.most.last(second), self.writes.most.last(second))
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
        let first = in_flight.acquire(&read, Moment::START);
        assert!(first.is_some());
        assert!(in_flight.acquire(&read, Moment::START).is_none());
        assert!(in_flight.acquire(&write, Moment::START).is_some());
        drop(first);
        assert!(in_flight.acquire(&read, Moment::START).is_some());
    }

    #[test]
    fn the_most_of_the_last_second_is_reported() {
        let in_flight = InFlight::new(InFlightLimits::default());
        let at = |second| Moment::START + std::time::Duration::from_secs(second);
        let read = request("GET /api/v1/nodes", User::admin());
        let (first, second) = (
            in_flight.acquire(&read, at(5)),
            in_flight.acquire(&read, at(5)),
        );
        drop((first, second));
        assert_eq!(in_flight.most(at(5)), (0, 0));
        assert_eq!(in_flight.most(at(6)), (2, 0));
        drop(in_flight.acquire(&read, at(6)));
        assert_eq!(in_flight.most(at(6)), (2, 0));
        assert_eq!(in_flight.most(at(7)), (1, 0));
        assert_eq!(in_flight.most(at(9)), (0, 0));
    }

    #[test]
    fn what_lasts_and_who_administers_needs_no_place() {
        let in_flight = InFlight::new(InFlightLimits {
            reads: 0,
            writes: 0,
        });
        let passes = |line, user| {
            let request = request(line, user);
            in_flight.acquire(&request, Moment::START).is_some()
        };
        assert!(!passes("GET /api/v1/nodes", ann()));
        assert!(passes("GET /api/v1/nodes?watch=1", ann()));
        assert!(passes("GET /api/v1/namespaces/d/pods/p/log", ann()));
        assert!(passes("POST /api/v1/nodes", User::admin()));
    }
}
