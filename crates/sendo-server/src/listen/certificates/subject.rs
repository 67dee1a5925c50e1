//! The user of a client certificate: its common name, in the groups of its organisations.

use sendo_x509::Certificate;

use crate::request::user::User;

/// The user a certificate names; `None` without a common name.
pub(crate) fn user_of(certificate: &[u8]) -> Option<User> {
    let subject = Certificate::from_der(certificate)?.subject;
    let name = subject.common_name().filter(|name| !name.is_empty())?;
    Some(User::new(name, subject.organizations()))
}
