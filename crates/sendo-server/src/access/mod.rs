//! Access control: who a client is (authentication), and what it may do (authorisation).

pub(crate) mod authenticate;
pub(crate) mod authorise;
pub(crate) mod follow;
pub(crate) mod rbac;
pub(crate) mod tokens;
