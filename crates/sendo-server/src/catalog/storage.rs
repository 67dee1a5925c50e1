//! What all that reads and writes the store needs.

use jiff::Timestamp;
use sendo_apimachinery::Status;

/// A time as Kubernetes writes it: whole seconds, UTC.
pub(crate) fn time_text(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second());
    whole.expect("a second of a moment that is one").to_string()
}

/// A failure of the store that no request can be blamed for.
pub(crate) fn backend(error: sendo_store::Error) -> Status {
    Status::internal_error(error)
}
