//! A moment as an entry keeps it.

use std::time::Duration;

use sendo_world::Moment;

/// A moment in half the size: nanoseconds since the clock's start, enough for
/// five centuries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At(pub(super) u64);

impl At {
    pub(super) fn since(self, earlier: At) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(super) fn after(self, delay: Duration) -> At {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        At(self.0.saturating_add(nanos))
    }

    pub(super) fn moment(self) -> Moment {
        Moment::START + Duration::from_nanos(self.0)
    }
}

impl From<Moment> for At {
    fn from(moment: Moment) -> Self {
        At(0).after(moment - Moment::START)
    }
}
