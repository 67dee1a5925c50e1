//! No certificates are made without the feature `certificates`.

use sendo_world::{Random, Timestamp};

use super::identity::{Identity, Names, Trusted};
use super::{Lifetimes, Unusable};

/// The key of an authority; there is none here.
#[derive(Debug)]
pub(crate) struct AuthorityKey {
    pub(crate) certificate: Trusted,
    pub(crate) pem: String,
}

const DISABLED: &str = "this program makes no certificates: build it with the feature \
     `certificates` of `sendo`, or mount a folder with `tls.crt` and `tls.key` and name it";

impl AuthorityKey {
    pub(crate) fn make(_: &str, _: Timestamp, _: &Lifetimes, _: &Random) -> Result<Self, Unusable> {
        Err(Unusable::new(DISABLED))
    }

    pub(crate) fn from_pem(_: &[u8], _: &Trusted) -> Result<Self, Unusable> {
        Err(Unusable::new(DISABLED))
    }

    pub(crate) fn sign(
        &self,
        _: &Names,
        _: Timestamp,
        _: &Lifetimes,
        _: &Random,
    ) -> Result<Identity, Unusable> {
        Err(Unusable::new(DISABLED))
    }
}
