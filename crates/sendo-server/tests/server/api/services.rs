//! What services are given: addresses and node ports.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use sendo_server::{ApiServer, Options, ServiceRanges};
use sendo_store::Memory;
use sendo_world::World;
use serde_json::{Value, json};

use super::support::Fixture;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

fn service(name: &str, spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        service["spec"][key] = value.clone();
    }
    service
}

async fn create(f: &Fixture, name: &str, spec: Value) -> Value {
    let line = format!("POST {SERVICES}");
    let created = f.json(&line, service(name, spec)).await;
    assert_eq!(created.code, 201, "{}", created.body);
    created.body
}

async fn refusal(f: &Fixture, name: &str, spec: Value) -> (u16, String) {
    let line = format!("POST {SERVICES}");
    f.json(&line, service(name, spec)).await.refusal()
}

#[tokio::test(start_paused = true)]
async fn an_address_comes_from_the_range_and_says_whose_it_is() {
    let f = Fixture::start().await;
    let created = create(&f, "a", json!({})).await;
    let ip = created["spec"]["clusterIP"].as_str().unwrap();
    assert!(ip.starts_with("10."), "{ip}");
    assert_eq!(created["spec"]["clusterIPs"], json!([ip]));
    assert_eq!(created["spec"]["ipFamilies"], json!(["IPv4"]));
    assert_eq!(created["spec"]["ipFamilyPolicy"], "SingleStack");

    let address = f.get(&format!("{ADDRESSES}/{ip}")).await.body;
    assert_eq!(
        address["spec"]["parentRef"],
        json!({"resource": "services", "namespace": "default", "name": "a"})
    );
    f.delete(&format!("{SERVICES}/a")).await;
    assert_eq!(f.get(&format!("{ADDRESSES}/{ip}")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn an_address_is_given_once() {
    let f = Fixture::start().await;
    let taken = create(&f, "a", json!({})).await["spec"]["clusterIP"].clone();
    let ip = taken.as_str().unwrap();
    assert_eq!(
        refusal(&f, "b", json!({"clusterIP": ip})).await,
        (
            422,
            format!(
                "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"{ip}\"]: \
                 failed to allocate IP {ip}: provided IP is already allocated"
            )
        )
    );
    f.delete(&format!("{SERVICES}/a")).await;
    create(&f, "b", json!({"clusterIP": ip})).await;
    let (code, message) = refusal(&f, "c", json!({"clusterIP": "198.51.100.1"})).await;
    assert_eq!(code, 422);
    assert!(message.ends_with("the provided network does not match the current range"));
}

#[tokio::test(start_paused = true)]
async fn a_refused_service_takes_nothing() {
    let f = Fixture::start().await;
    let before = f.get(ADDRESSES).await.body["items"].clone();
    let bad = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}, {"port": 81}]});
    assert_eq!(refusal(&f, "a", bad).await.0, 422);
    assert_eq!(f.get(ADDRESSES).await.body["items"], before);
    let good = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]});
    create(&f, "b", good).await;
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_takes_nothing() {
    let f = Fixture::start().await;
    let wish = service(
        "a",
        json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}),
    );
    let line = format!("POST {SERVICES}?dryRun=All");
    for _ in 0..2 {
        assert_eq!(f.json(&line, wish.clone()).await.code, 201);
    }
}

#[tokio::test(start_paused = true)]
async fn node_ports_come_with_the_type_and_go_with_it() {
    let f = Fixture::start().await;
    let created = create(&f, "a", json!({"type": "NodePort"})).await;
    let port = created["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((30000..=32767).contains(&port));

    let same = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    let (code, message) = refusal(&f, "b", same.clone()).await;
    assert_eq!(code, 422);
    assert!(message.ends_with(&format!(
        "spec.ports[0].nodePort: Invalid value: {port}: provided port is already allocated"
    )));

    let uri = format!("{SERVICES}/a");
    let changed = f.merge(&uri, json!({"spec": {"type": "ClusterIP"}})).await;
    assert_eq!(changed.body["spec"]["ports"][0].get("nodePort"), None);
    create(&f, "b", same).await;

    let (code, message) = refusal(
        &f,
        "c",
        json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
    )
    .await;
    assert_eq!(code, 422);
    assert!(message.ends_with("The range of valid ports is 30000-32767"));
}

#[tokio::test(start_paused = true)]
async fn ports_of_one_number_share_a_node_port() {
    let f = Fixture::start().await;
    let ports = json!([
        {"name": "t", "port": 53, "protocol": "TCP"},
        {"name": "u", "port": 53, "protocol": "UDP"},
    ]);
    let created = create(&f, "dns", json!({"type": "NodePort", "ports": ports})).await;
    let ports = created["spec"]["ports"].as_array().unwrap();
    assert_eq!(ports[0]["nodePort"], ports[1]["nodePort"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_given_stays_when_a_change_leaves_it_out() {
    let f = Fixture::start().await;
    let created = create(
        &f,
        "a",
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}),
    )
    .await;
    assert!(created["spec"]["healthCheckNodePort"].is_i64());
    let wish = service(
        "a",
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "selector": {"x": "y"}}),
    );
    let changed = f.json(&format!("PUT {SERVICES}/a"), wish).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    for key in ["clusterIP", "clusterIPs", "healthCheckNodePort"] {
        assert_eq!(changed.body["spec"][key], created["spec"][key]);
    }
    assert_eq!(
        changed.body["spec"]["ports"][0]["nodePort"],
        created["spec"]["ports"][0]["nodePort"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_external_name_has_no_address() {
    let f = Fixture::start().await;
    let created = create(&f, "a", json!({})).await;
    let ip = created["spec"]["clusterIP"].as_str().unwrap();
    let uri = format!("{SERVICES}/a");
    let named = json!({"spec": {"type": "ExternalName", "externalName": "a.example"}});
    let changed = f.merge(&uri, named).await.body;
    assert_eq!(changed["spec"].get("clusterIP"), None);
    assert_eq!(f.get(&format!("{ADDRESSES}/{ip}")).await.code, 404);

    let back = json!({"spec": {"type": "ClusterIP", "externalName": null}});
    let changed = f.merge(&uri, back).await.body;
    let ip = changed["spec"]["clusterIP"].as_str().unwrap();
    assert_eq!(f.get(&format!("{ADDRESSES}/{ip}")).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn two_families_give_two_addresses() {
    let cidr = |text| sendo_apimachinery::addresses::Cidr::parse(text).unwrap();
    let f = Fixture::start_with(|options| {
        options.services.cidrs = vec![cidr("192.0.2.0/24"), cidr("2001:db8::/112")];
    })
    .await;
    let both = create(&f, "a", json!({"ipFamilyPolicy": "PreferDualStack"})).await;
    let ips = both["spec"]["clusterIPs"].as_array().unwrap();
    assert_eq!(ips.len(), 2);
    assert!(ips[0].as_str().unwrap().starts_with("192.0.2."));
    assert!(ips[1].as_str().unwrap().starts_with("2001:db8::"));

    let one = json!({"spec": {"ipFamilyPolicy": "SingleStack"}});
    let changed = f.merge(&format!("{SERVICES}/a"), one).await.body;
    assert_eq!(changed["spec"]["clusterIPs"], json!([ips[0]]));
    let second = ips[1].as_str().unwrap();
    assert_eq!(f.get(&format!("{ADDRESSES}/{second}")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_range_can_be_used_up() {
    let cidr = sendo_apimachinery::addresses::Cidr::parse("192.0.2.0/29").unwrap();
    let f = Fixture::start_with(|options| options.services.cidrs = vec![cidr]).await;
    // Six addresses, of which the server's own service has the first.
    for i in 0..5 {
        create(&f, &format!("s{i}"), json!({})).await;
    }
    let (code, message) = refusal(&f, "more", json!({})).await;
    assert_eq!(code, 500);
    assert!(
        message.ends_with("failed to allocate a serviceIP for Service \"more\": range is full")
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_given_twice_to_many_at_once() {
    let f = Fixture::start_with(|options| options.services.node_ports = 30000..=30019).await;
    let names: Vec<String> = (0..20).map(|i| format!("s{i}")).collect();
    let created = join_all(
        names
            .iter()
            .map(|name| create(&f, name, json!({"type": "NodePort"}))),
    )
    .await;
    let mut ports: Vec<i64> = created
        .iter()
        .map(|service| service["spec"]["ports"][0]["nodePort"].as_i64().unwrap())
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, (30000..=30019).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_restarted_server_knows_what_is_taken() {
    let world = World::seeded(1);
    let store = Arc::new(Memory::new(world.clock().clone(), Default::default()));
    let options = || {
        let mut options = Options::new(store.clone(), world.clone());
        options.services = ServiceRanges {
            node_ports: 30000..=30000,
            ..ServiceRanges::default()
        };
        options
    };
    let wish = json!({"type": "NodePort"});
    let server = ApiServer::start(options()).await.unwrap();
    let first = Fixture {
        server,
        world: world.clone(),
    };
    let given = create(&first, "a", wish.clone()).await;

    let server = ApiServer::start(options()).await.unwrap();
    let second = Fixture {
        server,
        world: world.clone(),
    };
    let (code, message) = refusal(&second, "b", wish).await;
    assert_eq!(code, 500);
    assert!(
        message.ends_with("failed to allocate a nodePort: range is full"),
        "{message}"
    );
    let ip = &given["spec"]["clusterIP"];
    assert_eq!(refusal(&second, "b", json!({"clusterIP": ip})).await.0, 422);
}

#[tokio::test(start_paused = true)]
async fn the_server_is_a_service_itself() {
    let f = Fixture::start().await;
    let own = f.get(&format!("{SERVICES}/kubernetes")).await.body;
    assert_eq!(own["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(own["metadata"]["labels"]["component"], "apiserver");
    let range = f
        .get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes")
        .await
        .body;
    assert_eq!(range["spec"]["cidrs"], json!(["10.96.0.0/12"]));
    assert_eq!(range["status"]["conditions"][0]["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn the_servers_own_service_comes_back() {
    let f = Fixture::start().await;
    let path = format!("{SERVICES}/kubernetes");
    let before = f.get(&path).await.body;
    assert_eq!(f.delete(&path).await.code, 200);
    assert_eq!(f.get(&path).await.code, 404);
    f.world.clock().sleep(Duration::from_secs(11)).await;
    let after = f.get(&path).await.body;
    assert_eq!(after["spec"], before["spec"]);
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
}
