//! Attributes of Sendo.
