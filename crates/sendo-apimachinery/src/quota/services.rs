//! What services use: node ports and load balancers.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/quota/v1/evaluator/core/services.go`

use serde_json::Value;

use super::amounts::{self, Amounts};

const LOAD_BALANCERS: &str = "services.loadbalancers";
const NODE_PORTS: &str = "services.nodeports";

/// What can be limited of services beside their count.
pub(super) const NAMES: [&str; 3] = ["services", LOAD_BALANCERS, NODE_PORTS];

/// By what is asked for: node ports may not be allocated yet.
pub(super) fn usage(service: &Value) -> Amounts {
    let spec = &service["spec"];
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let chosen = |port: &&Value| port["nodePort"].as_i64().is_some_and(|port| port != 0);
    let (balancers, node_ports) = match spec["type"].as_str() {
        Some("NodePort") => (0, ports.len()),
        Some("LoadBalancer") if spec["allocateLoadBalancerNodePorts"] == false => {
            (1, ports.iter().filter(chosen).count())
        }
        Some("LoadBalancer") => (1, ports.len()),
        _ => (0, 0),
    };
    Amounts::from([
        amounts::one("services"),
        (LOAD_BALANCERS.to_owned(), amounts::count(balancers)),
        (NODE_PORTS.to_owned(), amounts::count(node_ports)),
    ])
}
