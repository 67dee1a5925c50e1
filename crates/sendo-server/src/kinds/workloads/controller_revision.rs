//! ControllerRevisions.

use crate::kinds::Rules;

pub(super) const RULES: Rules = Rules { ..Rules::NEUTRAL };
