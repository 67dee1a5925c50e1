//! The table, and which requests go through it.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use sendo_store::{At, Memory, Store};
use sendo_world::World;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Attributes, Mutate, Operation, PLUGINS, Plugin};
use crate::{ApiServer, Options};

/// `AllOrderedPlugins` of Kubernetes 1.36.
const ORDER: [&str; 40] = [
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
];

#[test]
fn the_steps_are_asked_in_the_order_of_kubernetes() {
    let place = |plugin: &Plugin| ORDER.iter().position(|name| *name == plugin.name);
    let (first, rest) = PLUGINS.split_first().expect("a table");
    assert_eq!((first.name, place(first)), ("forbidCreateAdmission", None));
    let places: Vec<usize> = rest
        .iter()
        .map(|plugin| place(plugin).unwrap_or_else(|| panic!("{} is unknown", plugin.name)))
        .collect();
    assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
}

/// A step that tells, as warnings, what it was asked about.
static TELLING: [Plugin; 1] = [Plugin {
    name: "Telling",
    handles: |_| true,
    mutate: Some(Mutate::Now(|attributes, object| {
        tell("mutate", attributes, object);
        Ok(())
    })),
    validate: Some(|attributes, object, _| {
        Box::pin(async move {
            tell("validate", attributes, object);
            Ok(())
        })
    }),
}];

fn tell(pass: &str, attributes: &Attributes<'_>, object: &Value) {
    let shown = |object: &Value| match object["kind"].as_str() {
        Some(kind) => format!("{kind} {}", object["metadata"]["name"]).replace('"', ""),
        None => "nothing".to_owned(),
    };
    let old = attributes.old.map(|old| format!(" was {}", shown(old)));
    let dry = if attributes.is_dry_run() { " dry" } else { "" };
    let (call, subresource) = (attributes.call, attributes.subresource());
    call.request.warn(format!(
        "{pass} {:?} {}/{subresource}: {}{}{dry}",
        attributes.operation,
        call.resource.facts.plural,
        shown(object),
        old.unwrap_or_default(),
    ));
}

struct Fixture {
    server: ApiServer,
    store: Arc<Memory>,
}

impl Fixture {
    async fn start(table: &'static [Plugin]) -> Self {
        let world = World::seeded(1);
        let store = Arc::new(Memory::new(world.clock().clone(), Default::default()));
        let options = Options::new(Arc::clone(&store) as _, world);
        let server = ApiServer::start_with(options, table).await.unwrap();
        Fixture { server, store }
    }

    async fn send(&self, line: &str, body: Value) -> Response<crate::Body> {
        let (method, uri) = line.split_once(' ').unwrap();
        let media = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", media)
            .body(Full::new(Bytes::from(body)));
        let service = self.server.client_service();
        match service.oneshot(request.unwrap()).await {
            Ok(response) => response,
        }
    }

    /// What the telling step was asked during a request, pass by pass.
    async fn told(&self, line: &str, body: Value) -> Vec<String> {
        let response = self.send(line, body).await;
        let warnings = response.headers().get_all("warning").iter();
        let texts = warnings.map(|value| value.to_str().unwrap());
        texts
            .filter_map(|text| text.strip_prefix("299 - \"")?.strip_suffix('"'))
            .filter(|text| text.starts_with("mutate ") || text.starts_with("validate "))
            .map(str::to_owned)
            .collect()
    }

    async fn json(&self, line: &str, body: Value) -> (u16, Value) {
        let response = self.send(line, body).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap())
    }
}

/// Both passes over the same thing.
fn both(told: &str) -> Vec<String> {
    ["mutate", "validate"]
        .map(|pass| format!("{pass} {told}"))
        .to_vec()
}

const DEFAULT: &str = "/api/v1/namespaces/default";

#[tokio::test(start_paused = true)]
async fn every_change_goes_through_both_passes() {
    let f = Fixture::start(&TELLING).await;
    let named = |name: &str| json!({"metadata": {"name": name}});
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]});
    let deployment = json!({
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let cases = [
        (
            "POST",
            format!("{DEFAULT}/configmaps"),
            named("a"),
            "Create configmaps/: ConfigMap a",
        ),
        (
            "POST",
            format!("{DEFAULT}/configmaps?dryRun=All"),
            named("b"),
            "Create configmaps/: ConfigMap b dry",
        ),
        (
            "PUT",
            format!("{DEFAULT}/configmaps/a"),
            named("a"),
            "Update configmaps/: ConfigMap a was ConfigMap a",
        ),
        (
            "PATCH",
            format!("{DEFAULT}/configmaps/a?dryRun=All"),
            json!({}),
            "Update configmaps/: ConfigMap a was ConfigMap a dry",
        ),
        (
            "DELETE",
            format!("{DEFAULT}/configmaps/a?dryRun=All"),
            Value::Null,
            "Delete configmaps/: nothing was ConfigMap a dry",
        ),
        (
            "DELETE",
            format!("{DEFAULT}/configmaps/a"),
            Value::Null,
            "Delete configmaps/: nothing was ConfigMap a",
        ),
        (
            "POST",
            format!("{DEFAULT}/pods"),
            pod,
            "Create pods/: Pod p",
        ),
        (
            "PATCH",
            format!("{DEFAULT}/pods/p/status"),
            json!({"status": {"phase": "Running"}}),
            "Update pods/status: Pod p was Pod p",
        ),
        (
            "POST",
            format!("{DEFAULT}/pods/p/exec?command=ls"),
            Value::Null,
            "Connect pods/exec: PodExecOptions null",
        ),
        (
            "POST",
            format!("{DEFAULT}/pods/p/binding"),
            json!({"metadata": {"name": "p"}, "target": {"name": "n"}}),
            "Create pods/binding: Binding p",
        ),
        (
            "POST",
            format!("{DEFAULT}/pods/p/eviction"),
            named("p"),
            "Create pods/eviction: Eviction p",
        ),
        (
            "POST",
            deployments.to_owned(),
            deployment,
            "Create deployments/: Deployment d",
        ),
        (
            "PATCH",
            format!("{deployments}/d/scale"),
            json!({"spec": {"replicas": 2}}),
            "Update deployments/scale: Scale d was Scale d",
        ),
        // An apply or a PUT that creates is a creation.
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/default/leases/l".to_owned(),
            named("l"),
            "Create leases/: Lease l",
        ),
        (
            "POST",
            format!("{DEFAULT}/serviceaccounts"),
            named("s"),
            "Create serviceaccounts/: ServiceAccount s",
        ),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(),
            json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}),
            "Create selfsubjectaccessreviews/: SelfSubjectAccessReview null",
        ),
    ];
    for (method, uri, body, told) in cases {
        let line = format!("{method} {uri}");
        assert_eq!(f.told(&line, body).await, both(told), "{line}");
    }
    // The body of a request for a token names nobody; the server does, between the passes.
    let token = format!("POST {DEFAULT}/serviceaccounts/s/token");
    assert_eq!(
        f.told(&token, json!({"spec": {}})).await,
        [
            "mutate Create serviceaccounts/token: TokenRequest null",
            "validate Create serviceaccounts/token: TokenRequest s",
        ]
    );
    assert_eq!(
        f.told(&format!("GET {DEFAULT}/pods/p"), Value::Null).await,
        [""; 0]
    );
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_collection_asks_about_each_object() {
    let f = Fixture::start(&TELLING).await;
    for name in ["a", "b"] {
        let body = json!({"metadata": {"name": name}, "data": {"k": "v"}});
        f.send(&format!("POST {DEFAULT}/configmaps"), body).await;
    }
    let line = format!("DELETE {DEFAULT}/configmaps");
    let told = f.told(&line, Value::Null).await;
    let each =
        ["a", "b"].map(|name| both(&format!("Delete configmaps/: nothing was ConfigMap {name}")));
    assert_eq!(told, each.concat());
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_asked_about_like_all_others() {
    let f = Fixture::start(&TELLING).await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}],
        },
    });
    let definitions = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(f.send(definitions, definition).await.status(), 201);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    assert_eq!(
        f.told(&format!("POST {widgets}"), widget).await,
        both("Create widgets/: Widget w")
    );
    let status = json!({"status": {"ready": true}});
    assert_eq!(
        f.told(&format!("PATCH {widgets}/w/status"), status).await,
        both("Update widgets/status: Widget w was Widget w")
    );
    assert_eq!(
        f.told(&format!("DELETE {widgets}/w"), Value::Null).await,
        both("Delete widgets/: nothing was Widget w")
    );
}

/// A step that changes configmaps, and claims a key for each.
static CLAIMING: [Plugin; 1] = [Plugin {
    name: "Claiming",
    handles: |attributes| {
        attributes.operation == Operation::Create && attributes.is_of("", "configmaps", "")
    },
    mutate: Some(Mutate::Later(|attributes, object| {
        Box::pin(async move {
            let name = attributes.name(object).to_owned();
            *object = json!({"metadata": {"name": name, "namespace": "default"}, "data": {"by": "a step"}});
            Ok(())
        })
    })),
    validate: Some(|attributes, object, claims| {
        Box::pin(async move {
            let key = format!("/claims/{}", attributes.name(object));
            claims.take(key.into(), "claimed");
            Ok(())
        })
    }),
}];

#[tokio::test(start_paused = true)]
async fn a_step_may_replace_the_object_and_claim_keys_with_it() {
    let f = Fixture::start(&CLAIMING).await;
    let sent = json!({"metadata": {"name": "a"}, "data": {"by": "the client"}});
    let configmaps = format!("POST {DEFAULT}/configmaps");
    let (code, made) = f.json(&configmaps, sent).await;
    assert_eq!((code, &made["data"]["by"]), (201, &json!("a step")));
    let claimed = f.store.get("/claims/a", At::Latest).await.unwrap();
    let claimed = claimed.entry.expect("the claim is written");
    assert_eq!(
        made["metadata"]["resourceVersion"],
        claimed.modified.to_string()
    );

    let rejected = json!({"metadata": {"name": "B"}});
    assert_eq!(f.json(&configmaps, rejected).await.0, 422);
    let claimed = f.store.get("/claims/B", At::Latest).await.unwrap();
    assert!(
        claimed.entry.is_none(),
        "what is not written claims nothing"
    );
}
