//! The world a Sendo program lives in: clock, randomness, ids and tasks with owners.
