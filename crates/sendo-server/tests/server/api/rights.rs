//! Roles: what they allow, who may hand them out, and what reviews tell of them.

use serde_json::{Value, json};

use super::support::{Answer, Fixture};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

impl Fixture {
    /// A request in somebody's name.
    pub(crate) async fn as_(&self, user: &str, line: &str, body: Value) -> Answer {
        let headers = [
            ("impersonate-user", user),
            ("content-type", "application/json"),
        ];
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        self.call(line, &headers, body).await
    }

    /// A Role in `default`, and its binding to a user, both of the user's name.
    async fn let_(&self, user: &str, rules: Value) {
        let place = format!("{RBAC}/namespaces/default");
        self.grant(user, &format!("{place}/roles"), "Role", rules)
            .await;
    }

    /// As [`Fixture::let_`], in all namespaces and outside of them.
    pub(crate) async fn let_everywhere(&self, user: &str, rules: Value) {
        let roles = format!("{RBAC}/clusterroles");
        self.grant(user, &roles, "ClusterRole", rules).await;
    }

    async fn grant(&self, user: &str, roles: &str, kind: &str, rules: Value) {
        let role = json!({"metadata": {"name": user}, "rules": rules});
        let made = self.json(&format!("POST {roles}"), role).await;
        assert_eq!(made.code, 201, "{:?}", made.body);
        let bindings = roles.replace("roles", "rolebindings");
        let binding = binding(user, kind, user, user);
        let made = self.json(&format!("POST {bindings}"), binding).await;
        assert_eq!(made.code, 201, "{:?}", made.body);
    }
}

fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": user}],
    })
}

pub(crate) fn rule(verbs: &[&str], group: &str, resource: &str) -> Value {
    json!({"verbs": verbs, "apiGroups": [group], "resources": [resource]})
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn a_grant_counts_for_the_very_next_request_and_so_does_its_end() {
    let f = Fixture::start().await;
    for round in 0..20 {
        let name = format!("ann-{round}");
        let list = format!("GET {CONFIG_MAPS}");
        assert_eq!(f.as_(&name, &list, Value::Null).await.code, 403);
        f.let_(&name, json!([rule(&["list"], "", "configmaps")]))
            .await;
        assert_eq!(f.as_(&name, &list, Value::Null).await.code, 200);
        let patch = [("content-type", "application/merge-patch+json")];
        let role = format!("PATCH {RBAC}/namespaces/default/roles/{name}");
        let narrowed = json!({"rules": [rule(&["get"], "", "configmaps")]}).to_string();
        f.call(&role, &patch, narrowed).await;
        assert_eq!(f.as_(&name, &list, Value::Null).await.code, 403);
        f.delete(&format!("{RBAC}/namespaces/default/rolebindings/{name}"))
            .await;
        let get = format!("GET {CONFIG_MAPS}/x");
        assert_eq!(f.as_(&name, &get, Value::Null).await.code, 403);
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_to_an_absent_role_says_so_until_the_role_comes() {
    let f = Fixture::start().await;
    let binding = json!({
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "later"},
        "subjects": [{"kind": "Group", "name": "system:authenticated"}],
    });
    f.json(&format!("POST {RBAC}/clusterrolebindings"), binding)
        .await;
    let refused = f.as_("ann", "GET /api/v1/nodes", Value::Null).await;
    assert_eq!(
        refused.body["message"],
        "nodes is forbidden: User \"ann\" cannot list resource \"nodes\" in API group \"\" at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io \"later\" not found"
    );
    let role = json!({"metadata": {"name": "later"}, "rules": [rule(&["list"], "", "nodes")]});
    f.json(&format!("POST {RBAC}/clusterroles"), role).await;
    assert_eq!(
        f.as_("ann", "GET /api/v1/nodes", Value::Null).await.code,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_hands_out_more_than_they_hold() {
    let f = Fixture::start().await;
    let own = rule(
        &["create", "get", "update"],
        "rbac.authorization.k8s.io",
        "roles",
    );
    let bindings = rule(
        &["create", "get", "update"],
        "rbac.authorization.k8s.io",
        "rolebindings",
    );
    f.let_("ann", json!([own, bindings])).await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = |name: &str, rules: Value| json!({"metadata": {"name": name}, "rules": rules});
    let secrets = json!([rule(&["get"], "", "secrets")]);
    let refused = f
        .as_("ann", &format!("POST {roles}"), role("r", secrets.clone()))
        .await;
    assert_eq!(refused.code, 403);
    let message = refused.body["message"].as_str().unwrap();
    assert!(
        message.ends_with("{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"),
        "{message}"
    );
    let less = json!([rule(&["get"], "rbac.authorization.k8s.io", "roles")]);
    let made = f
        .as_("ann", &format!("POST {roles}"), role("r", less))
        .await;
    assert_eq!(made.code, 201);
    // Nor by a change, nor by binding what somebody else made.
    let more = f
        .as_("ann", &format!("PUT {roles}/r"), role("r", secrets.clone()))
        .await;
    assert_eq!(more.code, 403);
    f.json(&format!("POST {roles}"), role("made", secrets))
        .await;
    let binding = binding("b", "Role", "made", "ann");
    let path = format!("POST {RBAC}/namespaces/default/rolebindings");
    assert_eq!(f.as_("ann", &path, binding.clone()).await.code, 403);
    let bind = json!([{
        "verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles"], "resourceNames": ["made"],
    }]);
    f.json(&format!("POST {roles}"), role("binder", bind)).await;
    f.json(&path, self::binding("binder", "Role", "binder", "ann"))
        .await;
    assert_eq!(f.as_("ann", &path, binding).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn a_binding_of_the_cluster_finds_no_role_of_a_namespace() {
    let f = Fixture::start().await;
    let bindings = rule(
        &["create"],
        "rbac.authorization.k8s.io",
        "clusterrolebindings",
    );
    f.let_everywhere("ann", json!([bindings])).await;
    let line = format!("POST {RBAC}/clusterrolebindings");
    let refused = f.as_("ann", &line, binding("b", "Role", "r", "ann")).await;
    assert_eq!(refused.code, 400);
    assert_eq!(refused.body["message"], "Namespace parameter required.");
}

#[tokio::test(start_paused = true)]
async fn a_role_that_gathers_others_takes_an_administrator() {
    let f = Fixture::start().await;
    f.let_everywhere("ann", json!([rule(&["*"], "*", "*")]))
        .await;
    let gathering = json!({
        "metadata": {"name": "sum"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
    });
    // Everything but paths is not everything; but whoever may escalate may do this too.
    let made = f
        .as_(
            "ann",
            &format!("POST {RBAC}/clusterroles"),
            gathering.clone(),
        )
        .await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    let narrow = json!({"metadata": {"name": "ann"}, "rules": [rule(&["create"], "rbac.authorization.k8s.io", "clusterroles")]});
    f.json(&format!("PUT {RBAC}/clusterroles/ann"), narrow)
        .await;
    let refused = f
        .as_("ann", &format!("POST {RBAC}/clusterroles"), gathering)
        .await;
    let message = refused.body["message"].as_str().unwrap();
    assert!(
        message.ends_with("must have cluster-admin privileges to use the aggregationRule"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn reviews_tell_by_which_binding() {
    let f = Fixture::start().await;
    f.let_("ann", json!([rule(&["get"], "", "configmaps")]))
        .await;
    let ask = |resource: &str| {
        json!({"spec": {"user": "ann", "resourceAttributes":
            {"namespace": "default", "verb": "get", "resource": resource}}})
    };
    let path = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews";
    let yes = f.json(path, ask("configmaps")).await;
    assert_eq!(
        yes.body["status"],
        json!({"allowed": true,
               "reason": "RBAC: allowed by RoleBinding \"ann/default\" of Role \"ann\" to User \"ann\""})
    );
    let no = f.json(path, ask("secrets")).await;
    assert_eq!(no.body["status"], json!({"allowed": false}));
    let nobody = f
        .json(path, json!({"spec": {"resourceAttributes": {}}}))
        .await;
    assert_eq!(
        (nobody.code, &nobody.body["details"]["causes"][0]["field"]),
        (422, &json!("spec.user"))
    );
    let rules = f
        .as_(
            "ann",
            "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            json!({"spec": {"namespace": "default"}}),
        )
        .await;
    let resources = rules.body["status"]["resourceRules"].as_array().unwrap();
    assert!(resources.contains(&rule(&["get"], "", "configmaps")));
}

#[tokio::test(start_paused = true)]
async fn one_may_be_only_whom_one_was_allowed_to_be() {
    let f = Fixture::start().await;
    let ann = sendo_server::User::new("ann", [""; 0]);
    let who = |user: &str, group: &str| {
        let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("content-type", "application/json")
            .header("impersonate-user", user.to_owned());
        let request = match group {
            "" => request,
            group => request.header("impersonate-group", group.to_owned()),
        };
        let request = request.body(http_body_util::Full::from("{}")).unwrap();
        let (f, ann) = (&f, ann.clone());
        async move { f.send(ann, request).await.status().as_u16() }
    };
    assert_eq!(who("bob", "").await, 403);
    let rules = json!([
        {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]},
        {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["groups"], "resourceNames": ["dev"]},
    ]);
    f.let_everywhere("ann", rules).await;
    assert_eq!(who("bob", "").await, 201);
    assert_eq!(who("bob", "dev").await, 201);
    assert_eq!(who("bob", "system:masters").await, 403);
    assert_eq!(who("eve", "").await, 403);
}

#[tokio::test(start_paused = true)]
async fn a_node_reads_what_its_pods_need_and_no_more() {
    let f = Fixture::start().await;
    for name in ["used", "other"] {
        let secret = json!({"metadata": {"name": name}});
        f.json("POST /api/v1/namespaces/default/secrets", secret)
            .await;
    }
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "secret": {"secretName": "used"}}],
        },
    });
    let node = "system:node:n";
    let read = "GET /api/v1/namespaces/default/secrets";
    let used = format!("{read}/used");
    assert_eq!(f.as_(node, &used, Value::Null).await.code, 403);
    f.json("POST /api/v1/namespaces/default/pods", pod).await;
    assert_eq!(f.as_(node, &used, Value::Null).await.code, 200);
    let refused = f.as_(node, &format!("{read}/other"), Value::Null).await;
    let message = refused.body["message"].as_str().unwrap();
    assert!(
        message.ends_with(": no relationship found between node 'n' and this object"),
        "{message}"
    );
    let own = "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn";
    assert_eq!(f.as_(node, own, Value::Null).await.code, 200);
    let all = f.as_(node, "GET /api/v1/pods", Value::Null).await;
    assert_eq!(all.code, 403);
}

#[tokio::test(start_paused = true)]
async fn a_new_cluster_has_the_roles_everybody_knows() {
    let f = Fixture::start().await;
    for path in [
        "clusterroles/cluster-admin",
        "clusterroles/view",
        "clusterroles/system:controller:replicaset-controller",
        "clusterrolebindings/cluster-admin",
        "namespaces/kube-system/roles/extension-apiserver-authentication-reader",
        "namespaces/kube-public/rolebindings/system:controller:bootstrap-signer",
    ] {
        let found = f.get(&format!("{RBAC}/{path}")).await;
        assert_eq!(found.code, 200, "{path}");
        let labels = &found.body["metadata"]["labels"];
        assert_eq!(labels["kubernetes.io/bootstrapping"], "rbac-defaults");
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_a_certificate_is_noted_and_its_signer_guarded() {
    let f = Fixture::start().await;
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = json!({
        "metadata": {"name": "c"},
        "spec": {"request": CSR, "signerName": "example.dev/s", "usages": ["client auth"], "username": "liar"},
    });
    let made = f.json(&format!("POST {path}"), request).await;
    assert_eq!(
        made.body["spec"]["username"], "kubernetes-admin",
        "{made:?}"
    );
    let approve = rule(
        &["patch"],
        "certificates.k8s.io",
        "certificatesigningrequests/approval",
    );
    f.let_everywhere("ann", json!([approve])).await;
    let headers = [
        ("impersonate-user", "ann"),
        ("content-type", "application/merge-patch+json"),
    ];
    let approval = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let refused = f
        .call(
            &format!("PATCH {path}/c/approval"),
            &headers,
            approval.to_string(),
        )
        .await;
    assert_eq!(
        refused.body["message"],
        "certificatesigningrequests.certificates.k8s.io \"c\" is forbidden: user not permitted to approve requests with signerName \"example.dev/s\""
    );
}

/// A request for a certificate of `CN=jane`, in PEM, in base64.
const CSR: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISU1IRUNBUUF3RHpFTk1Bc0dBMVVFQXd3RWFtRnVaVEJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSApBMElBQktvVktaUUVXRVA3S0QwL0UvNDhtWG9MSmMvS3Vua0tGMWQ1Mld4QWh3ME5YQ0xWS2lqbm51UU02M1ZSCnRJNW5XNk1aVTZJVENCaG5VSHhwSVdRYUVCZWdBREFLQmdncWhrak9QUVFEQWdOSEFEQkVBaUJKYnh2dXpwZnIKd21Bam5Kc2dZdDFGZDhGN0JocmhQRjFxMk9nUytvcHBGd0lnYytJclpPcXNLL2YzSTVzWUYxaXYrdUxENjI5TgpCclhHbUozUVpGK1hVdGM9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";

#[tokio::test(start_paused = true)]
async fn whoever_creates_by_a_put_or_an_apply_needs_the_permission_to() {
    let f = Fixture::start().await;
    f.let_(
        "ann",
        json!([rule(
            &["get", "patch", "update"],
            "coordination.k8s.io",
            "leases"
        )]),
    )
    .await;
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a";
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}});
    let refused = f.as_("ann", &format!("PUT {path}"), lease.clone()).await;
    assert_eq!(
        refused.body["message"],
        "leases.coordination.k8s.io \"a\" is forbidden: User \"ann\" cannot create resource \"leases\" in API group \"coordination.k8s.io\" in the namespace \"default\""
    );
    let headers = [
        ("impersonate-user", "ann"),
        ("content-type", "application/apply-patch+yaml"),
    ];
    let apply = format!("PATCH {path}?fieldManager=m");
    let refused = f.call(&apply, &headers, lease.to_string()).await;
    assert_eq!(refused.code, 403);
    f.json(
        "POST /apis/coordination.k8s.io/v1/namespaces/default/leases",
        lease.clone(),
    )
    .await;
    let applied = f.call(&apply, &headers, lease.to_string()).await;
    assert_eq!(applied.code, 200, "{:?}", applied.body);
}
