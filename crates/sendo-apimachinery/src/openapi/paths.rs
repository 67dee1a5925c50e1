//! The paths of one resource and what can be done at each.

use serde_json::{Value, json};

use super::names::{Names, capitalized};
use super::operation::{MediaTypes, Operation, PathItem, ResponseBody};
use super::parameter::{CREATE, DELETE, PATCH, Parameter, SELECT, WATCH};
use super::{META, base, sentences};
use crate::resources::{Resource, Scope, Subresource};
use crate::schema::Types;

/// A resource with the names of its schemas and the encodings it knows.
pub(super) struct Served<'a> {
    pub(super) resource: &'a Resource,
    /// The schema of its objects.
    pub(super) object: String,
    /// The schema of a list of them.
    pub(super) list: String,
    pub(super) origin: Origin,
    /// For the kinds of subresources.
    pub(super) types: &'a Types,
}

/// What defines a resource, and so what it understands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Go types: all encodings, strategic merge patches, the old watch paths.
    BuiltIn,
    /// A custom resource definition: JSON and YAML.
    Definition,
}

/// What a write is about: an object, or a part of one.
struct Endpoint<'a> {
    kind: Value,
    schema: &'a str,
    /// The subresource that it is.
    of: Option<&'a str>,
}

/// Methods that a connection passes on.
const CONNECT: [(&str, &str); 5] = [
    ("delete", "delete"),
    ("get", "get"),
    ("patch", "patch"),
    ("post", "create"),
    ("put", "update"),
];

impl Served<'_> {
    /// Every path, with its operations.
    pub(super) fn paths(&self, names: &Names) -> Vec<(String, PathItem)> {
        let base = base(self.resource);
        let collection = self.resource.path();
        let below = collection.strip_prefix(&base).unwrap_or_default();
        let plural = &self.resource.plural;
        let object = format!("{collection}/{{name}}");
        let mut paths = vec![
            (collection.clone(), self.collection(names)),
            (object.clone(), self.object(names)),
        ];
        if self.is_namespaced() {
            paths.push((format!("{base}/{plural}"), self.all_namespaces(names)));
        }
        for subresource in &self.resource.subresources {
            let path = format!("{object}/{}", subresource.name);
            if self.is_connection(subresource) {
                paths.push((path.clone(), self.connection(names, subresource, "")));
                if subresource.verbs.iter().any(|verb| verb == "update") {
                    let item = self.connection(names, subresource, "WithPath");
                    paths.push((format!("{path}/{{path}}"), item));
                }
            } else {
                paths.push((path, self.subresource(names, subresource)));
            }
        }
        if self.resource.has_verb("watch") && self.origin == Origin::BuiltIn {
            let (one, list) = (self.watch_one(names), self.watch_list(names));
            paths.push((format!("{base}/watch{below}/{{name}}"), one));
            paths.push((format!("{base}/watch{below}"), list));
            if self.is_namespaced() {
                let all = self.watch_all_namespaces(names);
                paths.push((format!("{base}/watch/{plural}"), all));
            }
        }
        paths.retain(|(_, item)| !item.is_empty());
        paths
    }

    fn collection(&self, names: &Names) -> PathItem {
        let mut item = PathItem::default();
        let kind = self.own_kind();
        if self.resource.has_verb("list") {
            let operation = self.operation("get", names, "list", "", "");
            item.add(self.listing(operation.taking(self.namespace()), "list", &self.list));
        }
        if self.resource.has_verb("create") {
            let operation = self.operation("post", names, "create", "", "");
            let operation = operation.taking(self.namespace());
            item.add(self.creating(operation, &self.whole()));
        }
        if self.resource.has_verb("deletecollection") {
            let operation = self.operation("delete", names, "delete", "Collection", "");
            let operation = operation
                .taking(self.namespace())
                .asking("ListOptions", &SELECT)
                .asking("DeleteOptions", &DELETE)
                .about("deletecollection", kind)
                .saying(self.sentence("deletecollection", None))
                .accepting(&self.body_types(), &format!("{META}.DeleteOptions"))
                .answering(200, self.answer(&format!("{META}.Status")));
            item.add(operation);
        }
        item
    }

    fn all_namespaces(&self, names: &Names) -> PathItem {
        let mut item = PathItem::default();
        if self.resource.has_verb("list") {
            let id = format!("list{}{}ForAllNamespaces", names.id, self.resource.kind);
            let operation = Operation::new("get", &id, &names.tag).taking([pretty()]);
            item.add(self.listing(operation, "list", &self.list));
        }
        item
    }

    fn object(&self, names: &Names) -> PathItem {
        let mut item = PathItem::default();
        let kind = self.own_kind();
        if self.resource.has_verb("get") {
            let operation = self.operation("get", names, "read", "", "");
            let operation = operation
                .taking(self.name(&self.resource.kind))
                .about("get", kind.clone())
                .saying(self.sentence("get", None));
            item.add(operation.answering(200, self.answer(&self.object)));
        }
        if self.resource.has_verb("update") {
            let operation = self.operation("put", names, "replace", "", "");
            let operation = operation.taking(self.name(&self.resource.kind));
            item.add(self.replacing(operation, &self.whole()));
        }
        if self.resource.has_verb("patch") {
            let operation = self.operation("patch", names, "patch", "", "");
            let operation = operation.taking(self.name(&self.resource.kind));
            item.add(self.patching(operation, &self.whole()));
        }
        if self.resource.has_verb("delete") {
            let status = format!("{META}.Status");
            let answer = if self.resource.returns_deleted {
                &self.object
            } else {
                &status
            };
            let operation = self.operation("delete", names, "delete", "", "");
            let operation = operation
                .taking(self.name(&self.resource.kind))
                .asking("DeleteOptions", &DELETE)
                .about("delete", kind)
                .saying(self.sentence("delete", None))
                .accepting(&self.body_types(), &format!("{META}.DeleteOptions"))
                .answering(200, self.answer(answer))
                .answering(202, self.answer(answer));
            item.add(operation);
        }
        item
    }

    fn subresource(&self, names: &Names, subresource: &Subresource) -> PathItem {
        let mut item = PathItem::default();
        let schema = self.schema(subresource);
        let part = Endpoint {
            kind: kind(&subresource.group, &subresource.version, &subresource.kind),
            schema: &schema,
            of: Some(&subresource.name),
        };
        let suffix = capitalized(&subresource.name);
        let own = subresource.query.iter();
        let own = own.map(|own| Parameter::own(&own.name, &own.kind));
        let own: Vec<_> = own.chain(self.name(&subresource.kind)).collect();
        let operation = |method, verb| {
            self.operation(method, names, verb, "", &suffix)
                .taking(own.iter().cloned())
        };
        for verb in &subresource.verbs {
            item.add(match verb.as_str() {
                "get" => {
                    let answer = match subresource.plain_text {
                        true => ResponseBody::Text(self.media_types()),
                        false => self.answer(&schema),
                    };
                    let operation = operation("get", "read").about("get", part.kind.clone());
                    operation
                        .saying(self.sentence("get", part.of))
                        .answering(200, answer)
                }
                "create" => self.creating(operation("post", "create"), &part),
                "update" => self.replacing(operation("put", "replace"), &part),
                "patch" => self.patching(operation("patch", "patch"), &part),
                _ => continue,
            });
        }
        item
    }

    /// What lies behind a connection is not known: any method may reach it.
    fn connection(&self, names: &Names, subresource: &Subresource, with: &str) -> PathItem {
        let kind = kind(&subresource.group, &subresource.version, &subresource.kind);
        let own = |verb: &str| subresource.verbs.iter().any(|own| own == verb);
        let mut methods: Vec<_> = CONNECT
            .iter()
            .filter(|(_, verb)| own(verb))
            .map(|(method, _)| *method)
            .collect();
        if own("update") {
            methods.extend(["head", "options"]);
        }
        let mut item = PathItem::default();
        for method in methods {
            let id = format!(
                "connect{}{}{}{}{}{with}",
                names.id,
                capitalized(method),
                self.namespaced(),
                self.resource.kind,
                capitalized(&subresource.name),
            );
            let query = subresource.query.iter();
            let query = query.map(|own| Parameter::own(&own.name, &own.kind));
            let name = self.name(&subresource.kind).into_iter();
            let name = name.filter(|own| own.name != "pretty");
            let path = (!with.is_empty()).then(|| Parameter::path("path", "path to the resource"));
            let said = format!(
                "connect {} requests to {} of {}",
                method.to_uppercase(),
                subresource.name,
                self.resource.kind,
            );
            let operation = Operation::new(method, &id, &names.tag)
                .taking(query.chain(name).chain(path))
                .about("connect", kind.clone())
                .saying(said)
                .answering(200, ResponseBody::Connection);
            item.add(operation);
        }
        item
    }

    fn watch_one(&self, names: &Names) -> PathItem {
        let operation = self.operation("get", names, "watch", "", "");
        self.watching(operation.taking(self.name(&self.resource.kind)), "watch")
    }

    fn watch_list(&self, names: &Names) -> PathItem {
        let operation = self.operation("get", names, "watch", "", "List");
        self.watching(operation.taking(self.namespace()), "watchlist")
    }

    fn watch_all_namespaces(&self, names: &Names) -> PathItem {
        let id = format!(
            "watch{}{}ListForAllNamespaces",
            names.id, self.resource.kind
        );
        let operation = Operation::new("get", &id, &names.tag).taking([pretty()]);
        self.watching(operation, "watchlist")
    }

    fn watching(&self, operation: Operation, action: &'static str) -> PathItem {
        let mut item = PathItem::default();
        item.add(self.listing(operation, action, &format!("{META}.WatchEvent")));
        item
    }

    fn listing(&self, operation: Operation, action: &'static str, schema: &str) -> Operation {
        let does = match action {
            "list" if self.resource.has_verb("watch") => "list or watch",
            other => other,
        };
        operation
            .asking("ListOptions", &SELECT)
            .asking("ListOptions", &WATCH)
            .about(action, self.own_kind())
            .saying(self.sentence(does, None))
            .answering(200, self.answer(schema).or_stream())
    }

    fn creating(&self, operation: Operation, what: &Endpoint<'_>) -> Operation {
        self.writing(operation.asking("CreateOptions", &CREATE), "post", what)
            .answering(202, self.answer(what.schema))
    }

    fn replacing(&self, operation: Operation, what: &Endpoint<'_>) -> Operation {
        self.writing(operation.asking("UpdateOptions", &CREATE), "put", what)
    }

    fn writing(
        &self,
        operation: Operation,
        action: &'static str,
        what: &Endpoint<'_>,
    ) -> Operation {
        let body = (&self.body_types()[..], what.schema);
        self.changing(operation, action, what, body)
    }

    fn patching(&self, operation: Operation, what: &Endpoint<'_>) -> Operation {
        let mut media_types = vec![
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        ];
        if self.origin == Origin::BuiltIn {
            media_types.push("application/strategic-merge-patch+json");
        }
        let operation = operation.asking("PatchOptions", &PATCH);
        let body = (&media_types[..], &*format!("{META}.Patch"));
        self.changing(operation, "patch", what, body)
    }

    /// Sends a body in one of its media types, and gets what is stored then.
    fn changing(
        &self,
        operation: Operation,
        action: &'static str,
        what: &Endpoint<'_>,
        (media_types, body): (&[&'static str], &str),
    ) -> Operation {
        operation
            .about(action, what.kind.clone())
            .saying(self.sentence(action, what.of))
            .requiring(media_types, body)
            .answering(200, self.answer(what.schema))
            .answering(201, self.answer(what.schema))
    }

    fn operation(
        &self,
        method: &'static str,
        names: &Names,
        verb: &str,
        infix: &str,
        suffix: &str,
    ) -> Operation {
        let (group, namespaced) = (&names.id, self.namespaced());
        let id = format!(
            "{verb}{group}{infix}{namespaced}{}{suffix}",
            self.resource.kind
        );
        Operation::new(method, &id, &names.tag)
    }

    fn sentence(&self, action: &str, of: Option<&str>) -> String {
        sentences::action(action, &self.resource.kind, of)
    }

    fn answer(&self, schema: &str) -> ResponseBody {
        ResponseBody::object(schema).over(self.media_types())
    }

    fn media_types(&self) -> MediaTypes {
        let protobuf = self.origin == Origin::BuiltIn;
        MediaTypes {
            protobuf,
            yaml: true,
        }
    }

    fn body_types(&self) -> Vec<&'static str> {
        match self.origin {
            Origin::BuiltIn => vec!["*/*"],
            Origin::Definition => self.media_types().names(false),
        }
    }

    /// Kinds of options are no types of their own: they become a query.
    fn is_connection(&self, subresource: &Subresource) -> bool {
        subresource.kind.ends_with("Options")
    }

    fn schema(&self, subresource: &Subresource) -> String {
        let kind = self
            .types
            .kind(&subresource.api_version(), &subresource.kind);
        let id = kind.and_then(|kind| kind.type_id());
        id.map_or_else(|| self.object.clone(), |id| self.types.name(id))
    }

    fn whole(&self) -> Endpoint<'_> {
        Endpoint {
            kind: self.own_kind(),
            schema: &self.object,
            of: None,
        }
    }

    fn own_kind(&self) -> Value {
        let Resource {
            group,
            version,
            kind: name,
            ..
        } = self.resource;
        kind(group, version, name)
    }

    fn is_namespaced(&self) -> bool {
        self.resource.scope == Scope::Namespaced
    }

    fn namespaced(&self) -> &'static str {
        if self.is_namespaced() {
            "Namespaced"
        } else {
            ""
        }
    }

    fn namespace(&self) -> Vec<Parameter> {
        let said = "object name and auth scope, such as for teams and projects";
        let namespace = self
            .is_namespaced()
            .then(|| Parameter::path("namespace", said));
        namespace.into_iter().chain([pretty()]).collect()
    }

    /// The name of an object, of this kind or the kind of a subresource.
    fn name(&self, kind: &str) -> Vec<Parameter> {
        let mut parameters = self.namespace();
        parameters.push(Parameter::path("name", format!("name of the {kind}")));
        parameters
    }
}

fn pretty() -> Parameter {
    Parameter::query("pretty", "string", "GetOptions")
}

fn kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}
