//! Certificates of a program that it makes and renews by itself: an authority, a certificate that
//! it signs, and when each of them is replaced.
//!
//! Nothing here reads or writes anything. [`Kept`] is what all replicas share, in a Secret;
//! [`next_step`] says what is to be done about it at a given time, and the manager does it.
//!
//! A new authority goes into every `caBundle` before a certificate is signed by it, and an old one
//! stays there until it expires. So there is no moment at which a certificate is shown that the
//! API server does not trust:
//!
//! ```text
//! authority 1  |===================================================|
//!              made     in every caBundle                       expires
//! authority 2                          |=================================================
//!                                      made   in every caBundle, and for `settle`
//!                                                     |
//! certificates |----------|            |              |
//!              by 1   |----------|     |              |
//!                           by 1 |--------------------x
//!                                                     |----------|  by 2
//! ```

#[cfg_attr(not(feature = "certificates"), path = "authority/disabled.rs")]
mod authority;
mod identity;
mod kept;
mod step;
#[cfg(all(test, feature = "certificates"))]
mod tests;

use std::time::Duration;

#[cfg(all(test, feature = "certificates"))]
pub(crate) use authority::AuthorityKey;
pub(crate) use identity::{Identity, Names, Part, Trusted, certificates_in, unix_time};
pub(crate) use kept::Kept;
#[cfg(all(test, feature = "certificates"))]
use step::renewal;
pub(crate) use step::{Bundles, Maker, Step, next_step};

/// How long the certificates are valid that a program makes for its webhooks.
///
/// Each is replaced when two thirds of its time are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// The authority; ten years by default.
    pub authority: Duration,
    /// The certificate that it signs, and that webhooks are served with; 90 days by default. It
    /// never outlives its authority.
    pub certificate: Duration,
    /// How long a new authority is in every `caBundle` before a certificate is signed by it, so
    /// that every API server has read it; 30 s by default.
    pub settle: Duration,
}

/// A day.
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Default for Lifetimes {
    fn default() -> Self {
        Lifetimes {
            authority: DAY * 3652,
            certificate: DAY * 90,
            settle: Duration::from_secs(30),
        }
    }
}

/// Why a certificate cannot be used, or cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unusable(pub(crate) String);

impl Unusable {
    fn new(why: impl std::fmt::Display) -> Self {
        Unusable(why.to_string())
    }
}
