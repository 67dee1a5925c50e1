//! The error a reconcile, a runnable or a manager ends with.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;

use crate::transport;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and what the controller does about it.
///
/// Any error turns into one with `?`, and is then retried with backoff. Wrap it with
/// [`Error::terminal`] where a retry cannot help; a request that the program does not
/// [declare](crate::rights) is terminal by itself. Errors that only mean that another client was
/// faster are recognised and retried without a report: a write conflict, and a request that finds
/// the reconciled object itself gone.
pub struct Error {
    category: Category,
    source: Box<dyn StdError + Send + Sync>,
}

/// How a controller treats an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Reported and retried with backoff.
    Failure,
    /// What was read has been overtaken: retried at once with backoff, counted, not reported.
    Conflict,
    /// Reported and not retried until the object changes.
    Terminal,
}

impl Error {
    /// An error that no retry can mend, such as a spec that makes no sense.
    pub fn terminal(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Error {
            category: Category::Terminal,
            source: source.into(),
        }
    }

    /// An error that means only that somebody else was faster, and what was read
    /// no longer holds.
    pub fn conflict(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Error {
            category: Category::Conflict,
            source: source.into(),
        }
    }

    /// An error from a message, retried with backoff.
    pub fn message(text: impl Into<String>) -> Self {
        Error {
            category: Category::Failure,
            source: text.into().into(),
        }
    }

    /// What the controller does about it.
    pub fn category(&self) -> Category {
        self.category
    }

    /// The cause, if it is an `E`.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }

    /// The cause.
    pub fn source(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.source
    }
}

/// Not for `Error` itself, which is why it does not implement [`std::error::Error`]:
/// the two cannot both be, and `?` on any error is worth more.
impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(source: E) -> Self {
        let source: Box<dyn StdError + Send + Sync> = Box::new(source);
        let category = match source.downcast_ref::<transport::Error>() {
            Some(error) if error.is_conflict() => Category::Conflict,
            _ if is_undeclared(&*source) => Category::Terminal,
            _ => Category::Failure,
        };
        Error { category, source }
    }
}

/// Whether a request was not sent because nothing declares it: no retry changes that.
fn is_undeclared(error: &(dyn StdError + 'static)) -> bool {
    let own = error.downcast_ref::<transport::Error>();
    let through_kube = match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Service(cause)) => cause.downcast_ref(),
        _ => None,
    };
    matches!(own.or(through_kube), Some(transport::Error::Undeclared(_)))
}

impl From<Error> for Box<dyn StdError + Send + Sync> {
    fn from(error: Error) -> Self {
        error.source
    }
}

/// The message and the chain of its causes, joined by `: `.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_causes(&*self.source))
    }
}

/// The message of an error and the chain of its causes, joined by `: `.
pub(crate) fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Many errors repeat their cause in their own message.
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

/// A read of what was not declared: a kind that its controller neither watches
/// nor reads, or an index that it does not keep. The message names the line to add.
///
/// Reads give no `Result`, as nothing else can go wrong with them. One that is not declared ends
/// the reconcile with a [terminal](Error::terminal) error, the handler's event, or the runnable:
/// the stack is unwound up to there. It is also logged where it happens, as it would not be seen if
/// the program reads in a task or thread of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Undeclared(pub(crate) String);

impl Undeclared {
    /// Unwinds the stack up to who called the reader's code.
    pub(crate) fn raise(self) -> ! {
        tracing::error!("{self}");
        // Not by `panic!`, whose hook would print a stack: it is no defect of this library.
        std::panic::resume_unwind(Box::new(self))
    }

    /// What the stack was unwound for, if it was this.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Option<&Self> {
        panic.downcast_ref()
    }
}

/// The text a panic was raised with.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .or_else(|| Undeclared::of_panic(panic).map(|undeclared| undeclared.0.as_str()))
        .unwrap_or("(a panic without a message)")
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
