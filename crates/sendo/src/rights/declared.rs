//! All rights of a program, looked up for each request that it sends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use http::Method;

use super::{Attributes, Right, Verb, Verbs};

/// Paths that every authenticated user may read: the role `system:discovery`
/// (plugin/pkg/auth/authorizer/rbac/bootstrappolicy, `policy.go`).
const PUBLIC_PATHS: [&str; 7] = [
    "/api", "/apis", "/healthz", "/livez", "/openapi", "/readyz", "/version",
];

/// What every authenticated user may ask about himself: the role `system:basic-user`.
const PUBLIC_RESOURCES: [(&str, &str); 3] = [
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
];

/// The rights that a program has declared. Cheap to clone.
///
/// Each request of the program's clients is looked up here before it is sent.
#[derive(Clone)]
pub struct DeclaredRights {
    table: Arc<Table>,
}

struct Table {
    program: String,
    /// By group and resource, subresource included.
    exact: BTreeMap<String, BTreeMap<String, Vec<Right>>>,
    /// Those of several resources, and paths.
    others: Vec<Right>,
    /// Whether everything is allowed, so that nothing need be looked up.
    everything: bool,
}

/// A request that the program has not declared, and that was therefore not sent.
/// The message names the line to add.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UndeclaredRequest(String);

impl DeclaredRights {
    /// The rights of the program of that name.
    pub fn new(program: &str, rights: impl IntoIterator<Item = Right>) -> Self {
        let (mut exact, mut others) = (BTreeMap::<_, BTreeMap<_, Vec<_>>>::new(), Vec::new());
        for right in rights {
            if right.path.is_some() || right.group == "*" || right.resource.starts_with('*') {
                others.push(right);
            } else {
                let group = exact.entry(right.group.clone()).or_default();
                group.entry(right.resource.clone()).or_default().push(right);
            }
        }
        let table = Table {
            program: program.to_owned(),
            everything: others.contains(&Right::everything()),
            exact,
            others,
        };
        DeclaredRights {
            table: Arc::new(table),
        }
    }

    /// Whether everything is declared, by [`Right::everything`].
    pub fn is_everything(&self) -> bool {
        self.table.everything
    }

    /// Whether a request is declared.
    pub fn permits(&self, request: &Attributes<'_>) -> bool {
        if self.is_everything() || is_public(request) {
            return true;
        }
        let group = self.table.exact.get(request.group);
        let exact = group.and_then(|group| group.get(&*request.resource()));
        let all = exact.into_iter().flatten().chain(&self.table.others);
        all.into_iter().any(|right| right.permits(request))
    }

    /// Refuses a request that is not declared. `applies` says whether it is a
    /// server-side apply, which creates what is not there: it takes two rights.
    /// `kind` is how the program calls the type of the objects.
    pub(crate) fn check(
        &self,
        method: &Method,
        (path, query): (&str, &str),
        applies: bool,
        kind: Option<fn() -> String>,
    ) -> Result<(), UndeclaredRequest> {
        if self.is_everything() {
            return Ok(());
        }
        let Some(mut request) = Attributes::new(method, path, query) else {
            return Ok(());
        };
        let mut missing = Verbs::default();
        if !self.permits(&request) {
            missing = missing | request.verb;
        }
        if applies && request.subresource.is_none() {
            request.verb = Verb::Create;
            if !self.permits(&request) {
                missing = missing | Verb::Create;
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let (program, fix) = (&self.table.program, fix(&request, missing, kind));
        let missing = missing.names().join(" and ");
        let place = match request.namespace {
            Some(namespace) if request.resource != "namespaces" => format!(" in {namespace}"),
            _ => String::new(),
        };
        let what = match request.resource {
            "" => path.to_owned(),
            _ => super::request::qualified(&request.resource(), request.group),
        };
        Err(UndeclaredRequest(format!(
            "{method} {path} was not sent: `{program}` does not declare that it may {missing} \
             {what}{place}; add {fix} to the controller or the manager"
        )))
    }
}

/// Whether every authenticated user may send it.
fn is_public(request: &Attributes<'_>) -> bool {
    if !request.resource.is_empty() {
        let resource = (request.group, request.resource);
        return request.verb == Verb::Create && PUBLIC_RESOURCES.contains(&resource);
    }
    let below = |public: &&str| {
        let rest = request.path.strip_prefix(*public);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    request.verb == Verb::Get && PUBLIC_PATHS.iter().any(below)
}

/// The line that declares a request, as it is written in Rust.
fn fix(request: &Attributes<'_>, missing: Verbs, kind: Option<fn() -> String>) -> String {
    let verbs: Vec<String> = missing
        .iter()
        .map(|verb| format!("Verb::{verb:?}"))
        .collect();
    let verbs = verbs.join(" | ");
    if request.resource.is_empty() {
        return format!("`.needs(Right::path({:?}, {verbs}))`", request.path);
    }
    let writes = Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection;
    let (is_write, kind) = (writes.contains(request.verb), kind.map(|kind| kind()));
    let resource = request.resource();
    match (kind, request.subresource) {
        (Some(kind), None) if is_write => format!("`.writes::<{kind}>({verbs})`"),
        (Some(kind), None) => format!("`.needs(Right::of::<{kind}>({verbs}))`"),
        (Some(kind), Some(sub)) => {
            format!("`.needs(Right::of::<{kind}>({verbs}).subresource({sub:?}))`")
        }
        (None, _) => {
            let group = request.group;
            format!("`.needs(Right::resource({group:?}, {resource:?}, {verbs}))`")
        }
    }
}

/// The declared rights, in order.
impl fmt::Debug for DeclaredRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = self.table.exact.values().flat_map(BTreeMap::values);
        let all = exact.flatten().chain(&self.table.others);
        let lines = all.map(ToString::to_string);
        f.debug_list().entries(lines).finish()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{Node, Secret};

    use super::Verb::*;
    use super::*;

    fn refusal(rights: &DeclaredRights, method: Method, url: &str) -> Option<String> {
        let url = url.split_once('?').unwrap_or((url, ""));
        let refused = rights.check(&method, url, false, None);
        refused.err().map(|error| error.to_string())
    }

    fn refuses(rights: &DeclaredRights, method: Method, url: &str) -> bool {
        refusal(rights, method, url).is_some()
    }

    const SECRETS: &str = "/api/v1/namespaces/a/secrets";

    #[test]
    fn an_undeclared_request_is_refused_with_the_line_to_add() {
        let declared = [Right::of::<Secret>(Get | Create)];
        let rights = DeclaredRights::new("program", declared);
        assert!(!refuses(&rights, Method::POST, SECRETS));
        assert!(!refuses(&rights, Method::GET, &format!("{SECRETS}/s")));
        let refused = refusal(&rights, Method::DELETE, &format!("{SECRETS}/s")).unwrap();
        assert_eq!(
            refused,
            "DELETE /api/v1/namespaces/a/secrets/s was not sent: `program` does not declare that \
             it may delete secrets in a; add `.needs(Right::resource(\"\", \"secrets\", Verb::Delete))` \
             to the controller or the manager"
        );
        let typed = |method: Method, path: &str| {
            let name: fn() -> String = || "Secret".to_owned();
            let refused = rights.check(&method, (path, ""), false, Some(name));
            refused.unwrap_err().to_string()
        };
        let object = format!("{SECRETS}/s");
        assert!(typed(Method::PATCH, &object).contains("`.writes::<Secret>(Verb::Patch)`"));
        assert!(typed(Method::GET, SECRETS).contains("`.needs(Right::of::<Secret>(Verb::List))`"));
        let status = typed(Method::PATCH, &format!("{object}/status"));
        let fix = "`.needs(Right::of::<Secret>(Verb::Patch).subresource(\"status\"))`";
        assert!(status.contains(fix), "{status}");
    }

    #[test]
    fn an_apply_takes_the_right_to_create() {
        let path = ("/apis/apps/v1/namespaces/a/deployments/d", "");
        let check = |verbs: Verbs, path| {
            let rights = DeclaredRights::new("program", [Right::of::<Deployment>(verbs)]);
            let refused = rights.check(&Method::PATCH, path, true, None);
            refused.err().map(|error| error.to_string())
        };
        assert_eq!(check(Create | Patch, path), None);
        let short = check(Patch.into(), path).unwrap();
        assert!(
            short.contains("may create deployments.apps in a"),
            "{short}"
        );
        let short = check(Get.into(), path).unwrap();
        assert!(
            short.contains("may create and patch deployments"),
            "{short}"
        );
        let status = ("/apis/apps/v1/namespaces/a/deployments/d/status", "");
        let short = check(Create | Patch, status).unwrap();
        assert!(
            short.contains("may patch deployments/status.apps"),
            "{short}"
        );
    }

    #[test]
    fn rights_are_narrowed_by_name_and_namespace() {
        let declared = [
            Right::of::<Secret>(Get | Create | Watch)
                .named("s")
                .in_namespace("a"),
            Right::of::<Node>(List),
        ];
        let rights = DeclaredRights::new("program", declared);
        let refused = |method, url: &str| refuses(&rights, method, url);
        assert!(!refused(Method::GET, "/api/v1/namespaces/a/secrets/s"));
        assert!(refused(Method::GET, "/api/v1/namespaces/a/secrets/t"));
        assert!(refused(Method::GET, "/api/v1/namespaces/b/secrets/s"));
        assert!(!refused(Method::POST, SECRETS), "a creation has no name");
        let watch = format!("{SECRETS}?watch=true");
        assert!(refused(Method::GET, &watch));
        let selected = format!("{watch}&fieldSelector=metadata.name%3Ds");
        assert!(!refused(Method::GET, &selected));
        assert!(!refused(Method::GET, "/api/v1/nodes"));
    }

    #[test]
    fn wildcards_paths_and_what_everybody_may() {
        let refused = |right: Right, method: Method, path: &str| {
            refuses(&DeclaredRights::new("program", [right]), method, path)
        };
        let all = Right::resource("*", "*", List | Watch);
        assert!(!refused(all.clone(), Method::GET, SECRETS));
        assert!(refused(all.clone(), Method::POST, SECRETS));
        let scale = Right::resource("*", "*/scale", Patch);
        let deployment = "/apis/apps/v1/namespaces/a/deployments/d";
        assert!(!refused(
            scale.clone(),
            Method::PATCH,
            &format!("{deployment}/scale")
        ));
        assert!(refused(scale, Method::PATCH, deployment));
        assert!(!refused(Right::everything(), Method::DELETE, SECRETS));
        assert!(!refused(all.clone(), Method::GET, "/apis/apps/v1"));
        assert!(refused(all, Method::GET, "/metrics"));
        assert!(!refused(
            Right::path("/metrics", Get),
            Method::GET,
            "/metrics"
        ));
        assert!(!refused(
            Right::path("/logs/*", Get),
            Method::GET,
            "/logs/a"
        ));
        let myself = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        assert!(!refused(Right::path("/x", Get), Method::POST, myself));
    }
}
