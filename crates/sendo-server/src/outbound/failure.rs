//! What went wrong with a connection, in the words of Go's HTTP client.
//!
//! Follows Kubernetes 1.36:
//! - `$GOROOT/src/net/net.go`: `OpError`, `DNSError`
//! - `$GOROOT/src/crypto/x509/verify.go`: `CertificateInvalidError`, `HostnameError`, `UnknownAuthorityError`
//! - `$GOROOT/src/crypto/tls/common.go`: `CertificateVerificationError`
//! - `$GOROOT/src/net/http/transport.go`: `dialConn`

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use jiff::Timestamp;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::{ServerName, UnixTime};
use tokio_rustls::rustls::{CertificateError, InvalidMessage};

/// A connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("dial tcp: lookup {0}: no such host")]
    Lookup(String),
    #[error("dial tcp {address}: connect: {}", system_text(.error))]
    Connect {
        address: SocketAddr,
        error: io::Error,
    },
}

/// The text of the error that caused `error`.
pub(crate) fn text(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    let mut next = Some(error);
    while let Some(error) = next {
        innermost = error;
        if let Some(known) = known(error) {
            return known;
        }
        next = match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    innermost.to_string()
}

/// The text of an error of a kind that Go words differently.
fn known(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<DialError>() {
        return Some(error.to_string());
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(tls_text(error));
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>()
        && (error.is_incomplete_message() || error.is_closed() || error.is_canceled())
    {
        return Some("EOF".to_owned());
    }
    let error = error.downcast_ref::<io::Error>()?;
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Some("EOF".to_owned()),
        _ if error.raw_os_error().is_some() => Some(format!("read tcp: {}", system_text(error))),
        _ => None,
    }
}

/// What the operating system says, as Go writes it: `connection refused`.
fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.to_ascii_lowercase()
}

fn tls_text(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(error) => format!(
            "tls: failed to verify certificate: x509: {}",
            certificate_text(error)
        ),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        rustls::Error::InvalidMessage(_) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        rustls::Error::AlertReceived(alert) => {
            format!("remote error: tls: {}", spaced(&format!("{alert:?}")))
        }
        other => format!("tls: {other}"),
    }
}

fn certificate_text(error: &CertificateError) -> String {
    match error {
        // An authority of the same name has signed nothing of the kind.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::ExpiredContext { time, not_after } => format!(
            "certificate has expired or is not yet valid: current time {} is after {}",
            moment(*time),
            moment(*not_after)
        ),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "certificate has expired or is not yet valid: current time {} is before {}",
            moment(*time),
            moment(*not_before)
        ),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => wrong_name(expected, presented),
        CertificateError::InvalidPurposeContext { .. } | CertificateError::InvalidPurpose => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::BadEncoding => "malformed certificate".to_owned(),
        other => other.to_string(),
    }
}

/// The refusal of a certificate for the names `presented`, of which each is written as the
/// TLS library does: `DnsName("a.example")`, `IpAddress(10.0.0.1)`.
fn wrong_name(expected: &ServerName<'_>, presented: &[String]) -> String {
    let of_kind = |kind: &str| {
        let names = presented.iter().filter_map(|name| {
            let name = name.strip_prefix(kind)?.strip_prefix('(')?;
            Some(name.strip_suffix(')')?.trim_matches('"'))
        });
        names.collect::<Vec<_>>().join(", ")
    };
    let (names, host) = match expected {
        ServerName::IpAddress(address) => {
            let host = IpAddr::from(*address).to_string();
            let names = of_kind("IpAddress");
            if names.is_empty() {
                return format!(
                    "cannot validate certificate for {host} because it doesn't contain any IP SANs"
                );
            }
            (names, host)
        }
        name => (of_kind("DnsName"), name.to_str().into_owned()),
    };
    match names.as_str() {
        "" => format!("certificate is not valid for any names, but wanted to match {host}"),
        names => format!("certificate is valid for {names}, not {host}"),
    }
}

fn moment(time: UnixTime) -> String {
    let seconds = Duration::from_secs(time.as_secs());
    (Timestamp::UNIX_EPOCH + seconds).to_string()
}

/// `HandshakeFailure` as `handshake failure`.
fn spaced(name: &str) -> String {
    let mut text = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.push(character.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &'static str) -> ServerName<'static> {
        ServerName::try_from(name).unwrap()
    }

    #[test]
    fn a_certificate_for_other_names_lists_them() {
        let presented = [
            "DnsName(\"a.example\")",
            "DnsName(\"b.example\")",
            "IpAddress(10.0.0.1)",
        ]
        .map(str::to_owned);
        let cases = [
            (
                name("c.example"),
                &presented[..],
                "certificate is valid for a.example, b.example, not c.example",
            ),
            (
                name("10.0.0.2"),
                &presented,
                "certificate is valid for 10.0.0.1, not 10.0.0.2",
            ),
            (
                name("10.0.0.2"),
                &presented[..2],
                "cannot validate certificate for 10.0.0.2 because it doesn't contain any IP SANs",
            ),
            (
                name("c.example"),
                &[],
                "certificate is not valid for any names, but wanted to match c.example",
            ),
        ];
        for (expected, presented, text) in cases {
            assert_eq!(wrong_name(&expected, presented), text);
        }
    }

    #[test]
    fn the_cause_is_found_however_deep_it_is() {
        let address = "127.0.0.1:1".parse().unwrap();
        let refused = io::Error::from_raw_os_error(111);
        let dialled = io::Error::other(DialError::Connect {
            address,
            error: refused,
        });
        let outer = io::Error::other(dialled);
        assert_eq!(
            text(&outer),
            "dial tcp 127.0.0.1:1: connect: connection refused"
        );
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::HandshakeFailure);
        let alert = io::Error::other(alert);
        assert_eq!(text(&alert), "remote error: tls: handshake failure");
    }
}
