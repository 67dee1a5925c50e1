//! Reads objects (get, list and watch), and encodes them into answers.

pub(crate) mod answer;
pub(crate) mod component_status;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod selection;
pub(crate) mod streams;
pub(crate) mod table;
pub(crate) mod view;
pub(crate) mod watch;
pub(crate) mod watch_event;
pub(crate) mod yaml;
