//! What is decided about writes by what else the cluster holds.

use serde_json::{Value, json};

use super::support::Fixture;

const PODS: &str = "/api/v1/namespaces/default/pods";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

fn pod(name: &str, spec: Value) -> Value {
    let mut pod =
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    pod
}

async fn make(f: &Fixture, path: &str, object: Value) -> Value {
    let made = f.json(&format!("POST {path}"), object).await;
    assert_eq!(made.code, 201, "{}", made.body);
    made.body
}

async fn refusal(f: &Fixture, path: &str, object: Value) -> (u16, String) {
    f.json(&format!("POST {path}"), object).await.refusal()
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_its_accounts_token_and_pull_secrets() {
    let f = Fixture::start().await;
    let account = json!({"metadata": {"name": "builder"}, "imagePullSecrets": [{"name": "pull"}]});
    make(&f, ACCOUNTS, account).await;
    let made = make(&f, PODS, pod("p", json!({"serviceAccountName": "builder"}))).await;
    let spec = &made["spec"];
    assert_eq!(spec["serviceAccount"], "builder");
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "pull"}]));
    let mount = &spec["containers"][0]["volumeMounts"][0];
    assert_eq!(
        mount["mountPath"],
        "/var/run/secrets/kubernetes.io/serviceaccount"
    );
    assert_eq!(spec["volumes"][0]["name"], mount["name"]);
    let token = &spec["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"];
    assert_eq!(*token, json!({"expirationSeconds": 3607, "path": "token"}));

    let none = json!({"serviceAccountName": "builder", "automountServiceAccountToken": false});
    assert_eq!(
        make(&f, PODS, pod("q", none)).await["spec"].get("volumes"),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn where_accounts_are_made_a_pod_needs_one() {
    let f = Fixture::start_with(|options| options.require_service_accounts = true).await;
    assert_eq!(
        refusal(&f, PODS, pod("p", json!({"serviceAccountName": "ghost"}))).await,
        (
            403,
            "pods \"p\" is forbidden: error looking up service account default/ghost: \
             serviceaccount \"ghost\" not found"
                .to_owned()
        )
    );
    assert_eq!(
        refusal(&f, PODS, pod("p", json!({"serviceAccountName": "a/b"}))).await,
        (
            403,
            "pods \"p\" is forbidden: error looking up service account default/a/b: \
             invalid resource name \"a/b\": [may not contain '/']"
                .to_owned()
        )
    );
    // The default one may be on its way.
    let wish = format!("POST {PODS}");
    let asked = f.json(&wish, pod("p", json!({})));
    let account = async {
        f.world
            .clock()
            .sleep(std::time::Duration::from_millis(500))
            .await;
        make(&f, ACCOUNTS, json!({"metadata": {"name": "default"}})).await;
    };
    let (answer, ()) = futures::join!(asked, account);
    assert_eq!(answer.code, 201, "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn a_pods_priority_is_that_of_its_class() {
    let f = Fixture::start().await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = json!({"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"});
    make(&f, classes, class).await;
    let made = make(&f, PODS, pod("a", json!({"priorityClassName": "high"}))).await;
    assert_eq!(made["spec"]["priority"], 7);
    assert_eq!(made["spec"]["preemptionPolicy"], "Never");
    let (code, message) = refusal(&f, PODS, pod("b", json!({"priorityClassName": "none"}))).await;
    assert_eq!(code, 403);
    assert!(message.ends_with("no PriorityClass with name none was found"));
    let (code, message) = refusal(&f, PODS, pod("b", json!({"priority": 3}))).await;
    assert_eq!(code, 403);
    assert!(message.contains("the integer value of priority (3) must not be provided in pod spec"));

    let default = json!({"metadata": {"name": "usual"}, "value": 1, "globalDefault": true});
    make(&f, classes, default).await;
    let made = make(&f, PODS, pod("c", json!({}))).await;
    assert_eq!(made["spec"]["priorityClassName"], "usual");
    let second = json!({"metadata": {"name": "other"}, "value": 2, "globalDefault": true});
    let (code, message) = refusal(&f, classes, second).await;
    assert_eq!(code, 403);
    assert!(
        message.ends_with(
            "PriorityClass usual is already marked as default. Only one default can exist"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_runtime_class_says_what_its_pods_need() {
    let f = Fixture::start().await;
    let class = json!({"metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "250m"}},
                       "scheduling": {"nodeSelector": {"vm": "yes"}}});
    make(&f, "/apis/node.k8s.io/v1/runtimeclasses", class).await;
    let made = make(&f, PODS, pod("a", json!({"runtimeClassName": "vm"}))).await;
    assert_eq!(made["spec"]["overhead"], json!({"cpu": "250m"}));
    assert_eq!(made["spec"]["nodeSelector"], json!({"vm": "yes"}));
    for (spec, why) in [
        (
            json!({"runtimeClassName": "none"}),
            "pod rejected: RuntimeClass \"none\" not found",
        ),
        (
            json!({"overhead": {"cpu": "1"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            json!({"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}}),
            "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no",
        ),
    ] {
        assert_eq!(
            refusal(&f, PODS, pod("b", spec)).await,
            (403, format!("pods \"b\" is forbidden: {why}"))
        );
    }
    for (class, why) in [
        ("", "resource name may not be empty"),
        (
            "a%b",
            "invalid resource name \"a%b\": [may not contain '%']",
        ),
    ] {
        let spec = json!({ "runtimeClassName": class });
        let refused = refusal(&f, PODS, pod("b", spec)).await;
        assert_eq!(refused, (500, why.to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_range_fills_in_and_bounds() {
    let f = Fixture::start().await;
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}},
    ]}});
    make(&f, "/api/v1/namespaces/default/limitranges", range).await;
    let made = make(&f, PODS, pod("a", json!({}))).await;
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}})
    );
    let mut greedy = pod("b", json!({}));
    greedy["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "2"}});
    assert_eq!(
        refusal(&f, PODS, greedy).await,
        (
            403,
            "pods \"b\" is forbidden: maximum cpu usage per Container is 1, but limit is 2"
                .to_owned()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_default_class_and_is_protected() {
    let f = Fixture::start_with(|options| options.protect_storage = true).await;
    let class = json!({"metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                       "provisioner": "a.example/b", "allowVolumeExpansion": true});
    make(&f, "/apis/storage.k8s.io/v1/storageclasses", class).await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
                       "resources": {"requests": {"storage": "1Gi"}}}});
    let made = make(&f, claims, claim).await;
    assert_eq!(made["spec"]["storageClassName"], "fast");
    assert_eq!(
        made["metadata"]["finalizers"],
        json!(["kubernetes.io/pvc-protection"])
    );
}

#[tokio::test(start_paused = true)]
async fn an_ingress_gets_the_default_class() {
    let f = Fixture::start().await;
    let class = json!({"metadata": {"name": "web", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
                       "spec": {"controller": "a.example/b"}});
    make(&f, "/apis/networking.k8s.io/v1/ingressclasses", class).await;
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}});
    let made = make(
        &f,
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        ingress,
    )
    .await;
    assert_eq!(made["spec"]["ingressClassName"], "web");
}

#[tokio::test(start_paused = true)]
async fn a_signing_request_says_who_sent_it() {
    let f = Fixture::start().await;
    let key = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::default()
        .serialize_request(&key)
        .unwrap();
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(request.pem().unwrap());
    let wish = json!({"metadata": {"name": "r"}, "spec": {"request": encoded, "signerName": "a.example/b",
                      "usages": ["client auth"], "username": "somebody-else"}});
    let made = make(
        &f,
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        wish,
    )
    .await;
    assert_eq!(made["spec"]["username"], "kubernetes-admin");
    assert_eq!(
        made["spec"]["groups"],
        json!(["system:masters", "system:authenticated"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_bound_claim_grows_if_its_class_allows_it() {
    let f = Fixture::start().await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let size = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    for (class, grows) in [("fixed", false), ("elastic", true)] {
        let wish = json!({"metadata": {"name": class}, "provisioner": "a.example/b", "allowVolumeExpansion": grows});
        make(&f, "/apis/storage.k8s.io/v1/storageclasses", wish).await;
        let mut claim = size("1Gi");
        claim["metadata"] = json!({"name": class});
        claim["spec"]["accessModes"] = json!(["ReadWriteOnce"]);
        claim["spec"]["storageClassName"] = class.into();
        claim["spec"]["volumeName"] = "v".into();
        make(&f, claims, claim).await;
        let uri = format!("{claims}/{class}");
        let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
        assert_eq!(f.merge(&format!("{uri}/status"), bound).await.code, 200);
        let grown = f.merge(&uri, size("2Gi")).await;
        if grows {
            assert_eq!(grown.code, 200, "{}", grown.body);
        } else {
            assert_eq!(grown.code, 403);
            let why = "only dynamically provisioned pvc can be resized and the storageclass that \
                       provisions the pvc must support resize";
            assert!(grown.body["message"].as_str().unwrap().ends_with(why));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_the_topology_of_the_node_it_is_created_on_or_bound_to() {
    let f = Fixture::start().await;
    let labels = json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "x"});
    let node = json!({"metadata": {"name": "n", "labels": labels}});
    make(&f, "/api/v1/nodes", node).await;
    make(&f, PODS, pod("created", json!({"nodeName": "n"}))).await;
    make(&f, PODS, pod("bound", json!({}))).await;
    let binding = json!({"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n"}});
    make(&f, &format!("{PODS}/bound/binding"), binding).await;
    for name in ["created", "bound"] {
        let pod = f.get(&format!("{PODS}/{name}")).await.body;
        let expected =
            json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"});
        assert_eq!(pod["metadata"]["labels"], expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_below_objects_of_a_namespace_that_goes() {
    let f = Fixture::start().await;
    make(&f, "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    make(&f, "/api/v1/namespaces/n/pods", pod("p", json!({}))).await;
    let account = json!({"metadata": {"name": "s"}});
    make(&f, "/api/v1/namespaces/n/serviceaccounts", account).await;
    assert_eq!(f.delete("/api/v1/namespaces/n").await.code, 200);
    let cases = [
        (
            "pods/p/binding",
            json!({"metadata": {"name": "p"}, "target": {"name": "n"}}),
        ),
        ("pods/p/eviction", json!({"metadata": {"name": "p"}})),
        ("serviceaccounts/s/token", json!({"spec": {}})),
    ];
    for (path, body) in cases {
        let refused = f
            .json(&format!("POST /api/v1/namespaces/n/{path}"), body)
            .await;
        assert_eq!(refused.code, 403, "{path}: {}", refused.body);
        let cause = &refused.body["details"]["causes"][0];
        assert_eq!(cause["reason"], "NamespaceTerminating", "{path}");
    }
    // What is there can still be changed.
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(
        f.merge("/api/v1/namespaces/n/pods/p", labels).await.code,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_pod_without_a_name_yet_is_called_by_its_prefix() {
    let f = Fixture::start().await;
    let mut nameless = pod("", json!({"priorityClassName": "none"}));
    nameless["metadata"] = json!({"generateName": "web-"});
    assert_eq!(
        refusal(&f, PODS, nameless).await,
        (
            403,
            "pods \"web-\" is forbidden: no PriorityClass with name none was found".to_owned()
        )
    );
}
