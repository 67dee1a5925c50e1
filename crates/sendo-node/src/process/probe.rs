//! Probes and hooks that reach a container over the network.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/probe/http/http.go`: `DoHTTPProbe`
//! - `pkg/probe/http/request.go`: `NewRequestForHTTPGetAction`
//! - `pkg/probe/tcp/tcp.go`: `DoTCPProbe`
//! - `pkg/probe/util.go`: `ResolveContainerPort`

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::pod::Port;
use crate::runtime::ProbeAnswer;

/// As much as is read of an answer: its first line is enough.
const ANSWER: u64 = 10 * 1024;

/// What is asked.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) address: IpAddr,
    /// The ports of the container, by whose names one may be meant.
    pub(super) ports: Vec<Port>,
}

impl Target {
    fn port(&self, port: &IntOrString) -> Result<u16, String> {
        let number = match port {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => {
                let named = self
                    .ports
                    .iter()
                    .find(|port| port.name.as_ref() == Some(name));
                named
                    .map(|port| port.container_port)
                    .or_else(|| name.parse().ok())
            }
        };
        let number = number
            .and_then(|number| u16::try_from(number).ok())
            .filter(|port| *port > 0);
        number.ok_or_else(|| format!("invalid port number: {port:?}"))
    }

    async fn connect(&self, host: Option<&str>, port: u16) -> Result<TcpStream, String> {
        let connected = match host.filter(|host| !host.is_empty()) {
            Some(host) => TcpStream::connect((host, port)).await,
            None => TcpStream::connect(SocketAddr::new(self.address, port)).await,
        };
        let at = host.map_or_else(|| self.address.to_string(), str::to_owned);
        connected.map_err(|error| format!("dial tcp {at}:{port}: {error}"))
    }
}

/// Carries out a probe by HTTP or TCP. What limits its time is the caller.
pub(super) async fn ask(probe: Probe, target: Target) -> ProbeAnswer {
    if let Some(action) = &probe.http_get {
        return http_get(action, &target).await;
    }
    if let Some(action) = &probe.tcp_socket {
        let port = target.port(&action.port)?;
        return target.connect(action.host.as_deref(), port).await.map(drop);
    }
    Err("this node carries out exec, httpGet and tcpSocket, and no other probe".to_owned())
}

async fn http_get(action: &HTTPGetAction, target: &Target) -> ProbeAnswer {
    if action
        .scheme
        .as_deref()
        .is_some_and(|scheme| scheme != "HTTP")
    {
        return Err("this node asks with the scheme HTTP only".to_owned());
    }
    let port = target.port(&action.port)?;
    let mut stream = target.connect(action.host.as_deref(), port).await?;
    let request = request(action, target, port);
    let written = stream.write_all(request.as_bytes()).await;
    written.map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    let read = stream.take(ANSWER).read_to_end(&mut answer).await;
    let line = String::from_utf8_lossy(&answer);
    let line = line.lines().next().unwrap_or_default();
    let code = line
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.get(2..5)?.parse::<u16>().ok());
    match (code, read) {
        (Some(200..=399), _) => Ok(()),
        (Some(code), _) => Err(format!("HTTP probe failed with statuscode: {code}")),
        (None, Err(error)) => Err(error.to_string()),
        (None, Ok(_)) => Err(format!("not an answer of HTTP: {line:?}")),
    }
}

fn request(action: &HTTPGetAction, target: &Target, port: u16) -> String {
    let path = action.path.as_deref().unwrap_or("/");
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut headers = String::new();
    let mut host = format!("{}:{port}", target.address);
    for header in action.http_headers.iter().flatten() {
        match header.name.eq_ignore_ascii_case("host") {
            true => host.clone_from(&header.value),
            false => headers.push_str(&format!("{}: {}\r\n", header.name, header.value)),
        }
    }
    let own = |name: &str| {
        let mut given = action.http_headers.iter().flatten();
        given.any(|header| header.name.eq_ignore_ascii_case(name))
    };
    if !own("user-agent") {
        headers.push_str("User-Agent: kube-probe/1.36\r\n");
    }
    if !own("accept") {
        headers.push_str("Accept: */*\r\n");
    }
    format!("GET {slash}{path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn action(value: serde_json::Value) -> HTTPGetAction {
        serde_json::from_value(value).unwrap()
    }

    fn target() -> Target {
        Target {
            address: IpAddr::from([10, 0, 0, 1]),
            ports: vec![Port {
                name: Some("web".to_owned()),
                container_port: 8080,
                ..Port::default()
            }],
        }
    }

    #[test]
    fn a_port_has_a_number_or_a_name() {
        let port = |port: serde_json::Value| target().port(&serde_json::from_value(port).unwrap());
        assert_eq!(port(json!(80)), Ok(80));
        assert_eq!(port(json!("web")), Ok(8080));
        assert_eq!(port(json!("81")), Ok(81));
        assert!(port(json!("none")).is_err() && port(json!(70000)).is_err());
    }

    #[test]
    fn headers_are_sent_and_may_be_replaced() {
        let plain = request(
            &action(json!({"port": 80, "path": "healthz"})),
            &target(),
            80,
        );
        assert!(plain.starts_with("GET /healthz HTTP/1.1\r\nHost: 10.0.0.1:80\r\n"));
        assert!(plain.contains("User-Agent: kube-probe/1.36\r\n"));
        let own = json!({"port": 80, "httpHeaders": [{"name": "Host", "value": "a.example"}, {"name": "user-agent", "value": "me"}]});
        let own = request(&action(own), &target(), 80);
        assert!(own.contains("Host: a.example\r\n") && !own.contains("kube-probe"));
    }
}
