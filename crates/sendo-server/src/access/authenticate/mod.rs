//! Authentication: finds the user of a request, the first step of the pipeline.

pub(crate) mod impersonate;

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sendo_apimachinery::Status;

use crate::access::Access;
use crate::request::Request;
use crate::request::user::User;

/// Bearer tokens the server knows, and whose they are.
pub type Tokens = BTreeMap<String, User>;

/// Finds the user of a request.
///
/// `known` is who the connection belongs to: its client certificate, or the
/// in-process caller. Without one, a bearer token must be valid; without that
/// too, the request is anonymous. Impersonation headers then name another
/// user, if the user is allowed to impersonate it.
pub(crate) async fn authenticate(
    access: &Access,
    known: Option<&User>,
    request: &Request,
) -> Result<User, Status> {
    let user = match known {
        Some(user) => user.clone(),
        None => match bearer(&request.headers) {
            Some(token) => {
                let audiences = access.audiences();
                let verified = access.token_user(token, &audiences).await;
                verified.map_err(|_| Status::unauthorized())?.user
            }
            None => User::anonymous(),
        },
    };
    Ok(user)
}

/// The token of an `Authorization` header, if it is of that kind.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let mut words = text.splitn(3, ' ');
    let (scheme, token) = (words.next()?, words.next()?);
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_one_word_after_the_scheme() {
        let token = |text: &'static str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, text.parse().unwrap())]);
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(token("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token("bearer abc more").as_deref(), Some("abc"));
        assert_eq!(token("Basic abc"), None);
        assert_eq!(token("Bearer"), None);
        assert_eq!(token("Bearer  abc"), None);
    }
}
