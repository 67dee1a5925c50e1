//! The options of an election.

use std::collections::BTreeMap;
use std::time::Duration;

use sendo_world::World;

use crate::hostname::hostname;
use crate::metrics::LeaderMetrics;

/// The lease to compete for, and the periods of its renewal.
#[derive(Clone, Debug)]
pub struct ElectionOptions {
    /// The name of the Lease: one per program, the same in all of its replicas.
    pub name: String,
    /// The namespace of the Lease: usually the one the program runs in.
    pub namespace: String,
    /// Who this candidate is; it must differ from all others. By default
    /// `<hostname>_<uuid>`, new for every election.
    pub identity: Option<String>,
    /// Labels to put on the Lease.
    pub labels: BTreeMap<String, String>,
    /// How long the others wait for a leader that gives no sign. 15 s by
    /// default; in whole seconds.
    pub lease_duration: Duration,
    /// How long after its last renewal a leader may still act. 10 s by default.
    pub renew_deadline: Duration,
    /// How long to rest between two attempts to take or to renew the lease. 2 s
    /// by default; a candidate rests up to 2.2 times as long, by chance.
    pub retry_period: Duration,
    /// Where to show who leads. Nowhere by default.
    pub metrics: Option<LeaderMetrics>,
}

impl ElectionOptions {
    /// An election for the lease `namespace/name`, with the defaults.
    pub fn new(namespace: &str, name: &str) -> Self {
        ElectionOptions {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            identity: None,
            labels: BTreeMap::new(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            metrics: None,
        }
    }

    pub(super) fn check(&self) -> Result<(), InvalidOptions> {
        if self.name.is_empty() || self.namespace.is_empty() {
            return Err(InvalidOptions::NoLease);
        }
        if self.lease_duration.subsec_nanos() != 0 || self.lease_duration.is_zero() {
            return Err(InvalidOptions::Fraction(self.lease_duration));
        }
        if self.renew_deadline >= self.lease_duration {
            return Err(InvalidOptions::LateDeadline {
                deadline: self.renew_deadline,
                duration: self.lease_duration,
            });
        }
        if self.retry_period.is_zero() || self.retry_period.mul_f64(1.2) >= self.renew_deadline {
            return Err(InvalidOptions::LateRetry {
                retry: self.retry_period,
                deadline: self.renew_deadline,
            });
        }
        Ok(())
    }

    pub(super) fn identity(&self, world: &World) -> String {
        let given = self.identity.clone();
        given.unwrap_or_else(|| format!("{}_{}", hostname(), world.random().uuid()))
    }
}

/// What is wrong with the options of an election.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOptions {
    /// Name or namespace are missing.
    #[error("an election needs the name and the namespace of its lease")]
    NoLease,
    /// The API keeps the duration in whole seconds.
    #[error("the lease duration is {0:?}, but must be a whole number of seconds, at least one")]
    Fraction(Duration),
    /// A leader would go on after another has taken the lease.
    #[error(
        "the renew deadline ({deadline:?}) must be shorter than the lease duration ({duration:?})"
    )]
    LateDeadline {
        /// The renew deadline.
        deadline: Duration,
        /// The lease duration.
        duration: Duration,
    },
    /// A leader would have no second chance to renew.
    #[error(
        "the retry period ({retry:?}) must be more than zero, and 1.2 times it shorter than the renew deadline ({deadline:?})"
    )]
    LateRetry {
        /// The retry period.
        retry: Duration,
        /// The renew deadline.
        deadline: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn identities_differ_between_programs_and_repeat_with_the_seed() {
        let options = ElectionOptions::new("ns", "lease");
        let identity = |seed| options.identity(&World::seeded(seed));
        assert_eq!(identity(1), identity(1));
        assert_ne!(identity(1), identity(2));
        let world = World::seeded(1);
        assert_ne!(options.identity(&world), options.identity(&world));
    }

    #[test]
    fn options_that_would_let_two_lead_are_refused() {
        let fine = ElectionOptions::new("ns", "lease");
        assert_eq!(fine.check(), Ok(()));
        let with = |change: fn(&mut ElectionOptions)| {
            let mut options = fine.clone();
            change(&mut options);
            options.check().unwrap_err().to_string()
        };
        assert!(with(|o| o.name.clear()).contains("needs the name"));
        assert!(
            with(|o| o.lease_duration = Duration::from_secs(10)).contains("must be shorter than")
        );
        assert!(with(|o| o.lease_duration += Duration::from_secs(1) / 2).contains("whole number"));
        assert!(with(|o| o.retry_period = Duration::from_secs(9)).contains("1.2 times"));
        assert!(with(|o| o.retry_period = Duration::from_secs(0)).contains("more than zero"));
    }
}
