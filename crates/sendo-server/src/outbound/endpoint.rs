//! Finds the address to dial for a Service.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/util/proxy/proxy.go`: `ResolveEndpoint`, `findServicePort`, `ResolveCluster`

use sendo_apimachinery::go_quote;
use sendo_store::{At, Key, KeyRange};
use serde_json::Value;

use super::Outbound;

const SERVICES: &str = "/registry/core/services/";
const ENDPOINT_SLICES: &str = "/registry/discovery.k8s.io/endpointslices/";
/// The label of an EndpointSlice that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Host and port of a ready endpoint of a Service's port.
///
/// A Service that stands for a name outside of the cluster is dialled by that name.
pub(super) async fn resolve(
    outbound: &Outbound,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<String, String> {
    let key: Key = format!("{SERVICES}{namespace}/{name}").into();
    let found = outbound.store.get(&key, At::Latest).await;
    let entry = found.map_err(|error| error.to_string())?.entry;
    let Some(entry) = entry else {
        return Err(format!("service {} not found", go_quote(name)));
    };
    let service = parse(&entry.value);
    match service["spec"]["type"].as_str().unwrap_or("ClusterIP") {
        "ClusterIP" | "LoadBalancer" | "NodePort" => {}
        "ExternalName" => {
            let host = service["spec"]["externalName"].as_str().unwrap_or_default();
            return Ok(format!("{host}:{port}"));
        }
        other => return Err(format!("unsupported service type {}", go_quote(other))),
    }
    let named_port = named_port(&service, port).ok_or_else(|| {
        let name = go_quote(name);
        format!("no service port {port} found for service {name}")
    })?;

    let range = KeyRange::prefix(&format!("{ENDPOINT_SLICES}{namespace}/"));
    let page = outbound.store.range(range, At::Latest, None).await;
    let page = page.map_err(|error| error.to_string())?;
    let mut addresses = Vec::new();
    for entry in &page.entries {
        let slice = parse(&entry.value);
        if slice["metadata"]["labels"][SERVICE_NAME] == name {
            collect(&slice, named_port, &mut addresses);
        }
    }
    // Those of the Service's first address family are preferred.
    let primary = service["spec"]["ipFamilies"][0].as_str().unwrap_or("IPv4");
    if addresses.iter().any(|address| address.family == primary) {
        addresses.retain(|address| address.family == primary);
    }
    if addresses.is_empty() {
        let name = go_quote(name);
        return Err(format!("no endpoints available for service {name}"));
    }
    let count = addresses.len() as u64;
    let drawn = outbound.world.random().below(0..count) as usize;
    Ok(addresses.swap_remove(drawn).text)
}

/// The name of a Service's port of this number; empty for one without.
fn named_port(service: &Value, port: u16) -> Option<&str> {
    let ports = service["spec"]["ports"].as_array()?;
    let found = ports.iter().find(|own| own["port"] == port)?;
    Some(found["name"].as_str().unwrap_or_default())
}

struct Address {
    family: String,
    text: String,
}

/// Adds the ready endpoints of a slice at the port of this name.
fn collect(slice: &Value, port: &str, addresses: &mut Vec<Address>) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let ports = list(&slice["ports"]);
    let port = ports
        .iter()
        .filter(|own| own["name"].as_str().unwrap_or_default() == port)
        .find_map(|own| own["port"].as_u64());
    let Some(port) = port else {
        return;
    };
    let family = slice["addressType"].as_str().unwrap_or_default();
    for endpoint in list(&slice["endpoints"]) {
        if endpoint["conditions"]["ready"] == false {
            continue;
        }
        if let Some(address) = endpoint["addresses"][0].as_str() {
            let text = match address.contains(':') {
                true => format!("[{address}]:{port}"),
                false => format!("{address}:{port}"),
            };
            addresses.push(Address {
                family: family.to_owned(),
                text,
            });
        }
    }
}

fn parse(stored: &[u8]) -> Value {
    serde_json::from_slice(stored).expect("stored objects are JSON of ours")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sendo_store::{Memory, Retention, Store, Transaction};
    use sendo_world::World;
    use serde_json::json;

    use super::*;

    async fn outbound(objects: &[(&str, Value)]) -> Outbound {
        let world = World::seeded(1);
        let store: Arc<dyn Store> =
            Arc::new(Memory::new(world.clock().clone(), Retention::default()));
        for (key, object) in objects {
            let put = Transaction::new().put(*key, object.to_string());
            store.commit(put).await.unwrap();
        }
        Outbound::new(&store, &world)
    }

    fn service(spec: Value) -> (&'static str, Value) {
        ("/registry/core/services/n/s", json!({"spec": spec}))
    }

    fn slice(family: &str, endpoints: Value) -> (&'static str, Value) {
        let key = match family {
            "IPv4" => "/registry/discovery.k8s.io/endpointslices/n/s-4",
            _ => "/registry/discovery.k8s.io/endpointslices/n/s-6",
        };
        let slice = json!({
            "metadata": {"labels": {SERVICE_NAME: "s"}},
            "addressType": family,
            "ports": [{"name": "other", "port": 1}, {"name": "https", "port": 9443}],
            "endpoints": endpoints,
        });
        (key, slice)
    }

    fn https() -> (&'static str, Value) {
        service(json!({"ports": [{"name": "https", "port": 443, "targetPort": "web"}]}))
    }

    #[tokio::test]
    async fn a_ready_endpoint_at_the_target_port_is_dialled() {
        let endpoints = json!([
            {"addresses": ["10.0.0.1"], "conditions": {"ready": false}},
            {"addresses": ["10.0.0.2"], "conditions": {}},
        ]);
        let six = slice("IPv6", json!([{"addresses": ["fd00::1"]}]));
        let both = outbound(&[https(), slice("IPv4", endpoints), six.clone()]).await;
        assert_eq!(
            resolve(&both, "n", "s", 443).await.unwrap(),
            "10.0.0.2:9443"
        );
        let other = outbound(&[https(), six]).await;
        assert_eq!(
            resolve(&other, "n", "s", 443).await.unwrap(),
            "[fd00::1]:9443"
        );
        let name = service(json!({"type": "ExternalName", "externalName": "a.example"}));
        let outside = outbound(&[name]).await;
        assert_eq!(
            resolve(&outside, "n", "s", 8443).await.unwrap(),
            "a.example:8443"
        );
    }

    #[tokio::test]
    async fn a_service_that_leads_nowhere_says_why() {
        let none = outbound(&[]).await;
        let error = resolve(&none, "n", "s", 443).await.unwrap_err();
        assert_eq!(error, "service \"s\" not found");
        let unready = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}]);
        let unready = outbound(&[https(), slice("IPv4", unready)]).await;
        let error = resolve(&unready, "n", "s", 443).await.unwrap_err();
        assert_eq!(error, "no endpoints available for service \"s\"");
        let error = resolve(&unready, "n", "s", 80).await.unwrap_err();
        assert_eq!(error, "no service port 80 found for service \"s\"");
    }
}
