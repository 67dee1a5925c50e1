//! Ways through the server to pods and nodes, where nobody listens.

use http_body_util::Full;
use sendo_server::User;
use serde_json::{Value, json};

use super::support::{Answer, Fixture};

const PODS: &str = "/api/v1/namespaces/default/pods";
const UPGRADE: [(&str, &str); 2] = [
    ("connection", "keep-alive, Upgrade"),
    ("upgrade", "SPDY/3.1"),
];

/// A pod with an address, on a node whose containers are run by `runtime`.
async fn a_pod_on(runtime: &str) -> Fixture {
    let f = Fixture::start().await;
    let node = json!({"metadata": {"name": "raft"}});
    assert_eq!(f.json("POST /api/v1/nodes", node).await.code, 201);
    let status = json!({"status": {
        "nodeInfo": {"containerRuntimeVersion": runtime},
        "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}],
    }});
    assert_eq!(f.merge("/api/v1/nodes/raft/status", status).await.code, 200);
    let account = json!({"metadata": {"name": "default"}});
    let accounts = "POST /api/v1/namespaces/default/serviceaccounts";
    assert_eq!(f.json(accounts, account).await.code, 201);
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"nodeName": "raft", "containers": [{"name": "c", "image": "i"}]},
    });
    let made = f.json(&format!("POST {PODS}"), pod).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let status = json!({"status": {"podIP": "10.2.2.2", "podIPs": [{"ip": "10.2.2.2"}]}});
    let told = f.merge(&format!("{PODS}/p/status"), status).await;
    assert_eq!(told.code, 200, "{}", told.body);
    f
}

fn said(answer: &Answer) -> (u16, &Value) {
    (answer.code, &answer.body["message"])
}

#[tokio::test(start_paused = true)]
async fn streams_need_a_connection_that_can_become_one() {
    let f = a_pod_on("simulated://1").await;
    for name in ["exec?command=ls", "attach", "portforward"] {
        for method in ["GET", "POST"] {
            let line = format!("{method} {PODS}/p/{name}");
            let plain = f.call(&line, &[], "").await;
            assert_eq!(
                said(&plain),
                (400, &json!("Upgrade request required")),
                "{line}"
            );
            let simulated = f.call(&line, &UPGRADE, "").await;
            assert_eq!(simulated.code, 500, "{line}");
            let text = simulated.body["message"].as_str().unwrap();
            assert!(text.contains("are simulated"), "{line}: {text}");
        }
    }
    // What is wrong with the request itself is told first.
    let absent = f.call(&format!("POST {PODS}/none/exec"), &[], "").await;
    assert_eq!(absent.code, 404);
    let other = f
        .call(&format!("POST {PODS}/p/exec?container=x"), &[], "")
        .await;
    assert_eq!(
        said(&other),
        (400, &json!("container x is not valid for pod p"))
    );
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_listen_is_named_with_its_address() {
    let f = a_pod_on("containerd://2").await;
    let exec = f.call(&format!("POST {PODS}/p/exec"), &UPGRADE, "").await;
    let refused = "dial tcp 10.1.1.1:10250: connect: connection refused";
    assert_eq!(
        said(&exec),
        (500, &json!(format!("error dialing backend: {refused}")))
    );
    let logs = f.get(&format!("{PODS}/p/log")).await;
    let get = format!("Get \"https://10.1.1.1:10250/containerLogs/default/p/c\": {refused}");
    assert_eq!(said(&logs), (500, &json!(get)));
    let node = f.get("/api/v1/nodes/raft/proxy/stats").await;
    let service = format!("error trying to reach service: {refused}");
    assert_eq!(said(&node), (503, &json!(service)));
}

#[tokio::test(start_paused = true)]
async fn a_proxy_leads_to_the_port_asked_for_told_of_or_usual() {
    let f = a_pod_on("simulated://1").await;
    for (name, port) in [
        ("p", 80),
        ("p:8080", 8080),
        ("http:p:", 80),
        ("https:p:", 443),
    ] {
        let answer = f.get(&format!("{PODS}/{name}/proxy/x")).await;
        let refused = format!("dial tcp 10.2.2.2:{port}: connect: connection refused");
        let service = format!("error trying to reach service: {refused}");
        assert_eq!(said(&answer), (503, &json!(service)), "{name}");
        let upgrade = f
            .call(&format!("GET {PODS}/{name}/proxy/x"), &UPGRADE, "")
            .await;
        let backend = format!("error dialing backend: {refused}");
        assert_eq!(said(&upgrade), (500, &json!(backend)), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_root_of_a_proxied_pod_ends_with_a_slash() {
    let f = a_pod_on("simulated://1").await;
    let root = format!("{PODS}/p/proxy");
    let send = |method: &str, uri: String| {
        let builder = http::Request::builder().method(method).uri(uri);
        f.send(User::admin(), builder.body(Full::default()).unwrap())
    };
    let moved = send("GET", format!("{root}?a=b%20c")).await;
    assert_eq!(moved.status(), 301);
    assert_eq!(moved.headers()["location"], format!("{root}/?a=b%20c"));
    assert_eq!(send("GET", format!("{root}/")).await.status(), 503);
    assert_eq!(send("POST", root).await.status(), 503);
}
