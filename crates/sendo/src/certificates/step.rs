//! What is to be done next about the certificates of a program.

use std::sync::Arc;
use std::time::Duration;

use sendo_world::{Random, Timestamp};
use sendo_x509::Certificate;

use super::authority::AuthorityKey;
use super::identity::{Names, Trusted};
use super::kept::{Kept, usable};
use super::{Lifetimes, Unusable};

/// What the cluster trusts, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bundles {
    /// How long every `caBundle` has had the newest authority; `None` if one does not have it.
    pub(crate) settled: Option<Duration>,
    /// The authorities of this program that are in any of them.
    pub(crate) found: Vec<Trusted>,
    /// Whether every one has the authority of the certificate that is kept.
    pub(crate) is_served_trusted: bool,
}

/// What is to be done next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing before this time.
    Wait(Timestamp),
    /// Nothing before the newest authority is in every `caBundle`, for as long as it has to be.
    Trust,
    /// This is to be kept instead.
    Keep(Kept),
}

/// What is to be done about `kept` at `now`. `before` is what this replica knew last, which
/// stands in for what is missing.
///
/// # Errors
/// If a key or a certificate cannot be made.
pub(crate) fn next_step(
    kept: &Kept,
    before: &Kept,
    bundles: &Bundles,
    with: &Maker<'_>,
) -> Result<Step, Unusable> {
    let now = with.now;
    let newest = kept.authorities.first();
    let Some((key, newest)) = kept.key.as_ref().zip(newest) else {
        return Ok(Step::Keep(with.new_authority(kept, before, bundles)?));
    };
    if renewal(&newest.fields) <= now || now < newest.fields.not_before {
        return Ok(Step::Keep(with.new_authority(kept, before, bundles)?));
    }
    let usable = |identity: &_| usable(identity, &kept.authorities, with.names, now).is_ok();
    let current = kept.identity.as_ref().filter(|identity| usable(identity));
    let is_by_newest = kept.issuer(now) == Some(newest);
    if let Some(current) = current.filter(|_| is_by_newest) {
        let due = renewal(&current.fields);
        if now < due {
            return Ok(Step::Wait(due.min(renewal(&newest.fields))));
        }
    } else {
        // While there is no certificate that works, nobody waits longer than it takes to trust.
        let takes = match current {
            Some(_) => with.lifetimes.settle,
            None => Duration::ZERO,
        };
        if bundles.settled.is_none_or(|settled| settled < takes) {
            return Ok(Step::Trust);
        }
    }
    let mut kept = kept.clone();
    kept.identity = Some(key.sign(with.names, now, with.lifetimes, with.random)?);
    Ok(Step::Keep(kept))
}

/// What certificates are made with.
pub(crate) struct Maker<'a> {
    /// The name of authorities.
    pub(crate) name: &'a str,
    pub(crate) names: &'a Names,
    pub(crate) now: Timestamp,
    pub(crate) lifetimes: &'a Lifetimes,
    pub(crate) random: &'a Random,
}

impl Maker<'_> {
    /// A new authority beside those that are trusted, and the certificate there is.
    fn new_authority(
        &self,
        kept: &Kept,
        before: &Kept,
        bundles: &Bundles,
    ) -> Result<Kept, Unusable> {
        let made = AuthorityKey::make(self.name, self.now, self.lifetimes, self.random)?;
        let mut authorities = vec![made.certificate.clone()];
        let known = kept.authorities.iter().chain(&before.authorities);
        for authority in known.chain(&bundles.found) {
            let has_expired = self.now > authority.fields.not_after;
            if !has_expired && !authorities.contains(authority) {
                authorities.push(authority.clone());
            }
        }
        let mut identities = [&kept.identity, &before.identity].into_iter().flatten();
        let identity = identities
            .find(|identity| usable(identity, &authorities, self.names, self.now).is_ok())
            .cloned();
        Ok(Kept {
            authorities,
            key: Some(Arc::new(made)),
            identity,
        })
    }
}

/// When a certificate is to be replaced: when two thirds of its time are over.
pub(crate) fn renewal(fields: &Certificate) -> Timestamp {
    let life = fields.not_after.duration_since(fields.not_before);
    fields.not_after - life / 3
}
