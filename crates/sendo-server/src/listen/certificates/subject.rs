//! The user of a client certificate: its common name, in the groups of its organisations.

use crate::request::user::User;
use crate::x509::Certificate;

const COMMON_NAME: [u64; 4] = [2, 5, 4, 3];
const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];

/// The user a certificate names; `None` without a common name.
pub(crate) fn user_of(certificate: &[u8]) -> Option<User> {
    let (mut name, mut groups) = (None, Vec::new());
    for (id, text) in Certificate::from_der(certificate)?.subject {
        if *id.components() == COMMON_NAME {
            name = Some(text);
        } else if *id.components() == ORGANIZATION {
            groups.push(text);
        }
    }
    Some(User::new(name.filter(|name| !name.is_empty())?, groups))
}
