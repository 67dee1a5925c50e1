//! Changing what is stored.

pub(crate) mod admission;
pub(crate) mod allocation;
pub(crate) mod apply;
pub(crate) mod binding;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod delete_collection;
pub(crate) mod eviction;
pub(crate) mod field_managers;
pub(crate) mod owner_references;
pub(crate) mod patch;
pub(crate) mod scale;
pub(crate) mod strategy;
pub(crate) mod update;
