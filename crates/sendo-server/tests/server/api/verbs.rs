//! The verb that is allowed is the verb that is done: every method at every path, with one
//! verb granted at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use sendo_server::User;
use serde_json::{Value, json};

use super::rights::rule;
use super::support::Fixture;

const METHODS: [&str; 8] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND",
];
const VERBS: [&str; 9] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "proxy",
];

/// A kind whose paths are tried.
#[derive(Clone, Copy)]
struct Kind {
    root: &'static str,
    plural: &'static str,
    api_version: &'static str,
    kind: &'static str,
    namespaced: bool,
    /// Whether requests are sent on by their verb alone, without a table of methods and paths.
    custom: bool,
}

const KINDS: [Kind; 5] = [
    Kind {
        root: "/api/v1",
        plural: "configmaps",
        api_version: "v1",
        kind: "ConfigMap",
        namespaced: true,
        custom: false,
    },
    Kind {
        root: "/apis/apps/v1",
        plural: "deployments",
        api_version: "apps/v1",
        kind: "Deployment",
        namespaced: true,
        custom: false,
    },
    Kind {
        root: "/api/v1",
        plural: "nodes",
        api_version: "v1",
        kind: "Node",
        namespaced: false,
        custom: false,
    },
    Kind {
        root: "/apis/example.dev/v1",
        plural: "widgets",
        api_version: "example.dev/v1",
        kind: "Widget",
        namespaced: true,
        custom: true,
    },
    Kind {
        root: "/apis/example.dev/v1",
        plural: "gadgets",
        api_version: "example.dev/v1",
        kind: "Gadget",
        namespaced: false,
        custom: true,
    },
];

impl Kind {
    fn collection(&self) -> String {
        match self.namespaced {
            true => format!("{}/namespaces/default/{}", self.root, self.plural),
            false => format!("{}/{}", self.root, self.plural),
        }
    }

    fn object(&self, name: &str) -> Value {
        let mut object = json!({
            "apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": name},
        });
        if self.custom {
            object["spec"] = json!({"replicas": 1});
        }
        if self.kind == "Deployment" {
            let labels = json!({"app": "a"});
            object["spec"] = json!({
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "i"}]}},
            });
        }
        object
    }

    /// Paths of every shape, those that lead nowhere among them.
    fn paths(&self) -> Vec<Path> {
        let (root, plural, collection) = (self.root, self.plural, self.collection());
        let below = collection.strip_prefix(root).unwrap();
        let all = format!("/{plural}");
        let mut places = vec![below.to_owned(), format!("{below}/"), format!("{below}//")];
        if self.namespaced {
            places.extend([
                all.clone(),
                format!("{all}/a"),
                format!("/namespaces//{plural}"),
            ]);
        } else {
            places.extend([
                format!("/namespaces/default/{plural}"),
                format!("/namespaces/default/{plural}/a"),
            ]);
        }
        let last = [
            "",
            "/status",
            "/scale",
            "/proxy",
            "/nothing",
            "/status/more",
        ];
        places.extend(last.map(|last| format!("{below}/a{last}")));
        places.push(format!("{below}//status"));
        let mut paths = Vec::new();
        for place in places {
            for prefix in ["", "/watch", "/proxy"] {
                for query in ["timeoutSeconds=1", "timeoutSeconds=1&watch=1"] {
                    let uri = format!("{root}{prefix}{place}?{query}");
                    paths.push(Path {
                        uri,
                        prefix,
                        place: place.clone(),
                        watches: query.ends_with("watch=1"),
                    });
                }
            }
        }
        paths
    }
}

struct Path {
    uri: String,
    prefix: &'static str,
    place: String,
    watches: bool,
}

impl Path {
    /// The verb that Kubernetes asks permission for, whether or not anything is served there.
    fn asked(&self, method: &str) -> &'static str {
        match self.prefix {
            "/watch" => return "watch",
            "/proxy" => return "proxy",
            _ => {}
        }
        let place = self.place.trim_matches('/');
        let place = match place.strip_prefix("namespaces/") {
            Some(rest) => rest.split_once('/').unwrap().1,
            None => place,
        };
        let named = place.split('/').nth(1).is_some_and(|name| !name.is_empty());
        match method {
            "GET" | "HEAD" if named => "get",
            "GET" | "HEAD" if self.watches => "watch",
            "GET" | "HEAD" => "list",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if named => "delete",
            "DELETE" => "deletecollection",
            _ => "",
        }
    }

    /// The body that belongs to a request.
    fn body(&self, kind: &Kind, method: &str) -> Value {
        let is_scale = self.place.ends_with("/scale");
        match method {
            "POST" => kind.object("new"),
            "PUT" if is_scale => json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"},
                "spec": {"replicas": 2},
            }),
            "PUT" => {
                let mut object = kind.object("a");
                object["metadata"]["labels"] = json!({"by": "update"});
                object["status"] = status(kind);
                object
            }
            "PATCH" if is_scale => json!({"spec": {"replicas": 3}}),
            "PATCH" => json!({"metadata": {"labels": {"by": "patch"}}, "status": status(kind)}),
            _ => Value::Null,
        }
    }
}

/// A status that is another one than before.
fn status(kind: &Kind) -> Value {
    match kind.kind {
        "ConfigMap" => Value::Null,
        "Node" => json!({"phase": "Running"}),
        _ => json!({"replicas": 7}),
    }
}

/// What an answer and what it left behind show to have been done.
#[derive(Debug, PartialEq)]
struct Done {
    code: u16,
    deed: Option<&'static str>,
}

struct Tried {
    f: Fixture,
    kind: Kind,
}

impl Tried {
    async fn start(kind: Kind) -> Self {
        let f = Fixture::start().await;
        for (plural, kind, scope) in [
            ("widgets", "Widget", "Namespaced"),
            ("gadgets", "Gadget", "Cluster"),
        ] {
            let definition = json!({
                "metadata": {"name": format!("{plural}.example.dev")},
                "spec": {"group": "example.dev", "scope": scope,
                    "names": {"plural": plural, "kind": kind},
                    "versions": [{"name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": {"type": "object",
                            "x-kubernetes-preserve-unknown-fields": true}},
                        "subresources": {"status": {}, "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas"}}}]},
            });
            let line = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            assert_eq!(f.json(line, definition).await.code, 201);
        }
        for verb in VERBS.iter().copied().chain(["*"]) {
            let name = user_of(verb);
            f.let_everywhere(&name, json!([rule(&[verb], "*", "*")]))
                .await;
        }
        let tried = Self { f, kind };
        tried.furnish().await;
        tried
    }

    /// Leaves the objects `a` and `b`, as they are at the start.
    async fn furnish(&self) {
        let collection = self.kind.collection();
        self.f.delete(&collection).await;
        for name in ["a", "b"] {
            let made = self
                .f
                .json(&format!("POST {collection}"), self.kind.object(name))
                .await;
            assert_eq!(made.code, 201, "{}", made.body);
        }
    }

    async fn state(&self) -> Value {
        self.f.get(&self.kind.collection()).await.body
    }

    /// Sends a request as the user who is granted one verb, and sees what came of it.
    async fn done(&self, verb: &str, method: &str, path: &Path) -> Done {
        let before = self.state().await;
        let body = match path.body(&self.kind, method) {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let media_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = http::Request::builder()
            .method(method)
            .uri(&path.uri)
            .header("impersonate-user", user_of(verb))
            .header("content-type", media_type)
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let response = self.f.send(User::admin(), request).await;
        let code = response.status().as_u16();
        // A watch ends in a second, by its own time.
        let clock = self.f.world.clock();
        let body = clock
            .timeout(Duration::from_secs(10), response.into_body().collect())
            .await;
        let body = body.expect("every answer ends").unwrap().to_bytes();
        let after = self.state().await;
        let deed = match code {
            200..=399 => Some(self.deed(&before, &after, &body, method)),
            _ => None,
        };
        if before != after {
            assert!(
                deed.is_some(),
                "{method} {} changed something and is refused",
                path.uri
            );
            self.furnish().await;
        }
        Done { code, deed }
    }

    fn deed(&self, before: &Value, after: &Value, body: &[u8], method: &str) -> &'static str {
        let count = |state: &Value| state["items"].as_array().unwrap().len();
        match count(after).cmp(&count(before)) {
            std::cmp::Ordering::Greater => return "create",
            std::cmp::Ordering::Less if count(after) == 0 => return "deletecollection",
            std::cmp::Ordering::Less => return "delete",
            std::cmp::Ordering::Equal => {}
        }
        if before != after {
            return match method {
                "PATCH" => "patch",
                _ => "update",
            };
        }
        let first = body.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let first: Value = serde_json::from_slice(first).unwrap_or_default();
        match (first.get("object"), first.get("items")) {
            // Only the code of a HEAD says.
            _ if method == "HEAD" => "read",
            (Some(_), _) => "watch",
            (_, Some(_)) => "list",
            _ => "get",
        }
    }
}

fn user_of(verb: &str) -> String {
    format!("may-{}", verb.replace('*', "all"))
}

async fn only_the_verb_that_is_granted_is_done(kind: Kind) {
    let tried = Tried::start(kind).await;
    let mut deeds = BTreeSet::new();
    for path in kind.paths() {
        for method in METHODS {
            let line = format!("{method} {}", path.uri);
            let asked = path.asked(method);
            let with_all = tried.done("*", method, &path).await;
            if let Some(deed) = with_all.deed {
                let reads = ["get", "list", "watch"].contains(&asked);
                assert!(
                    deed == asked || deed == "read" && reads,
                    "{line}: {asked} is {deed}"
                );
                deeds.insert(deed);
            }
            for verb in VERBS {
                let done = tried.done(verb, method, &path).await;
                if verb == asked {
                    assert_eq!(done, with_all, "{line} with {verb}");
                } else {
                    let refused = Done {
                        code: 403,
                        deed: None,
                    };
                    assert_eq!(done, refused, "{line} with {verb}");
                }
            }
        }
    }
    let mut expected = BTreeSet::from([
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ]);
    if kind.custom {
        expected.insert("read");
    }
    assert_eq!(deeds, expected, "each is done somewhere");
}

#[tokio::test(start_paused = true)]
async fn only_the_verb_that_is_granted_is_done_with_a_built_in_kind() {
    only_the_verb_that_is_granted_is_done(KINDS[0]).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_verb_that_is_granted_is_done_with_a_kind_of_status_and_scale() {
    only_the_verb_that_is_granted_is_done(KINDS[1]).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_verb_that_is_granted_is_done_with_a_kind_outside_of_namespaces() {
    only_the_verb_that_is_granted_is_done(KINDS[2]).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_verb_that_is_granted_is_done_with_a_custom_kind() {
    only_the_verb_that_is_granted_is_done(KINDS[3]).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_verb_that_is_granted_is_done_with_a_custom_kind_outside_of_namespaces() {
    only_the_verb_that_is_granted_is_done(KINDS[4]).await;
}

/// Built-in kinds have a table of methods and paths, custom ones are served by the verb alone.
#[tokio::test(start_paused = true)]
async fn an_old_path_to_watch_watches_or_is_refused() {
    for kind in [KINDS[0], KINDS[3]] {
        let tried = Tried::start(kind).await;
        let below = kind.collection();
        let below = below.strip_prefix(kind.root).unwrap();
        for place in [below.to_owned(), format!("{below}/a")] {
            let uri = format!("{}/watch{place}?timeoutSeconds=1", kind.root);
            let path = Path {
                uri,
                prefix: "/watch",
                place,
                watches: false,
            };
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
                let done = tried.done("watch", method, &path).await;
                let expected = match kind.custom || method == "GET" {
                    true => Done {
                        code: 200,
                        deed: Some("watch"),
                    },
                    false => Done {
                        code: 405,
                        deed: None,
                    },
                };
                assert_eq!(done, expected, "{method} {}", path.uri);
            }
        }
    }
}
