//! ConfigMaps.

use super::Rules;

pub(super) const RULES: Rules = Rules { ..Rules::NEUTRAL };
