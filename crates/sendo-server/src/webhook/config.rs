//! What a configuration says about where its webhook is.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/util/webhook/client.go`: `ClientConfig`, `hookClientConfig`
//! - `staging/src/k8s.io/client-go/rest/url_utils.go`: `DefaultServerURL`, `DefaultVersionedAPIPath`

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use serde_json::Value;

use super::CallError;

/// The port of a webhook that names none.
const PORT: u16 = 443;

/// The `clientConfig` of a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientConfig {
    pub(crate) url: Option<String>,
    pub(crate) service: Option<Service>,
    /// The certificates that vouch for that of the webhook, in PEM. Empty for those that the
    /// machine trusts.
    pub(crate) ca_bundle: Vec<u8>,
}

/// The Service that a webhook is behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) port: u16,
}

impl ClientConfig {
    /// Reads a stored `clientConfig`, of an admission webhook or of a definition's conversion.
    pub(crate) fn read(config: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let service = config.get("service").filter(|service| service.is_object());
        let bundle = config["caBundle"].as_str().unwrap_or_default();
        ClientConfig {
            url: config["url"].as_str().map(str::to_owned),
            service: service.map(|service| Service {
                namespace: text(&service["namespace"]),
                name: text(&service["name"]),
                path: text(&service["path"]),
                port: service["port"]
                    .as_u64()
                    .and_then(|port| u16::try_from(port).ok())
                    .filter(|port| *port != 0)
                    .unwrap_or(PORT),
            }),
            ca_bundle: STANDARD.decode(bundle).unwrap_or_default(),
        }
    }

    /// Where calls go.
    pub(super) fn target(&self) -> Result<Target, CallError> {
        if let Some(service) = &self.service {
            return Ok(Target {
                host: format!("{}.{}.svc", service.name, service.namespace),
                port: service.port,
                names_port: true,
                path: clean_path(&service.path),
                service: Some((service.namespace.clone(), service.name.clone())),
            });
        }
        let Some(url) = self.url.as_deref().filter(|url| !url.is_empty()) else {
            return Err(CallError::Configuration(
                "webhook configuration must have either service or URL".to_owned(),
            ));
        };
        let unparsable = |why: String| CallError::Configuration(format!("Unparsable URL: {why}"));
        let uri: Uri = url
            .parse()
            .map_err(|error: http::uri::InvalidUri| unparsable(error.to_string()))?;
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| unparsable(format!("{url} names no host")))?;
        Ok(Target {
            host: host.to_ascii_lowercase(),
            port: uri.port_u16().unwrap_or(PORT),
            names_port: uri.port().is_some(),
            path: clean_path(uri.path()),
            service: None,
        })
    }
}

/// Where the calls of a webhook go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// As in a URL: an IPv6 address is in brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether messages name the port.
    names_port: bool,
    /// Begins with a slash.
    pub(super) path: String,
    /// Namespace and name of the Service whose addresses are dialled.
    pub(super) service: Option<(String, String)>,
}

impl Target {
    /// Host and port.
    pub(super) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Host and port, if the configuration has one, as messages and the webhook see them.
    pub(super) fn shown_authority(&self) -> String {
        match self.names_port {
            true => self.authority(),
            false => self.host.clone(),
        }
    }

    /// The name or address that the certificate must be for.
    pub(super) fn server_name(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether HTTP/2 may be spoken. Calls to others are spread over their replicas, which
    /// one connection for all would prevent.
    pub(super) fn allows_http2(&self) -> bool {
        let name = self.server_name();
        let is_loopback = |address: IpAddr| address.is_loopback();
        self.service.is_none() && (name == "localhost" || name.parse().is_ok_and(is_loopback))
    }
}

/// A path without empty segments, `.` and `..`, as Go's `path.Join` leaves it.
fn clean_path(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(config: Value) -> Result<String, CallError> {
        let target = ClientConfig::read(&config).target()?;
        Ok(format!(
            "https://{}{}",
            target.shown_authority(),
            target.path
        ))
    }

    #[test]
    fn calls_go_where_the_configuration_says() {
        let cases = [
            (json!({"url": "https://a.example"}), "https://a.example/"),
            (
                json!({"url": "https://a.example:8443/x/"}),
                "https://a.example:8443/x",
            ),
            (
                json!({"url": "https://[::1]:1/a//b/../c"}),
                "https://[::1]:1/a/c",
            ),
            (
                json!({"service": {"namespace": "n", "name": "s"}}),
                "https://s.n.svc:443/",
            ),
            (
                json!({"service": {"namespace": "n", "name": "s", "port": 8443, "path": "/p"}}),
                "https://s.n.svc:8443/p",
            ),
        ];
        for (config, expected) in cases {
            assert_eq!(shown(config).unwrap(), expected);
        }
        assert_eq!(
            shown(json!({})).unwrap_err().to_string(),
            "webhook configuration must have either service or URL"
        );
    }

    #[test]
    fn http2_is_spoken_with_this_machine_only() {
        let http2 = |url: &str| {
            let config = ClientConfig::read(&json!({"url": url}));
            config.target().unwrap().allows_http2()
        };
        assert!(
            http2("https://127.0.0.1:1/x") && http2("https://[::1]") && http2("https://LOCALHOST")
        );
        assert!(!http2("https://10.0.0.1/x") && !http2("https://a.example"));
        let service = json!({"service": {"namespace": "n", "name": "localhost"}});
        assert!(
            !ClientConfig::read(&service)
                .target()
                .unwrap()
                .allows_http2()
        );
    }
}
