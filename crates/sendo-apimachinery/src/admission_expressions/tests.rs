//! Tests of expressions of admission: what they see, what they compose and ask, what they make.

use serde_json::{Value as Json, json};

use super::*;
use crate::cel::{CALL_LIMIT, CheckTarget, Decision, Fault};

/// Values for the inputs of an expression.
struct Case {
    object: Json,
    params: Json,
    resource: ResourceCheck,
}

impl Case {
    fn new(object: Json) -> Self {
        Case {
            object,
            params: Json::Null,
            resource: ResourceCheck::default(),
        }
    }

    /// The value of an expression as JSON, or what is wrong.
    fn value(&self, source: &str) -> String {
        self.value_with(source, &Composed::default())
    }

    fn value_with(&self, source: &str, composed: &Composed) -> String {
        let environment = Environment::new(true).of_mutations();
        let program = match environment.compile(source, &[], Some(composed)) {
            Ok(program) => program,
            Err(why) => return why.lines().next().unwrap_or_default().to_owned(),
        };
        let request =
            json!({"operation": "CREATE", "namespace": "n", "userInfo": {"username": "ann"}});
        let namespace = json!({"metadata": {"name": "n", "labels": {"a": "b"}}});
        let inputs = Inputs {
            object: &self.object,
            old_object: &Json::Null,
            request: &request,
            params: &self.params,
            namespace: &namespace,
            resource: &self.resource,
        };
        let mut activation = inputs.activation(Some(composed));
        loop {
            match activation.eval(&program, CALL_LIMIT).result {
                Ok(value) => {
                    return value
                        .to_json()
                        .map_or_else(|why| why, |json| json.to_string());
                }
                Err(Fault::Undecided(check)) => {
                    let decision = decide(&check);
                    activation.decide(*check, decision);
                }
                Err(fault) => return format!("fault: {fault}"),
            }
        }
    }
}

/// Allows the verb `get`, and says what was asked.
fn decide(check: &crate::cel::Check) -> Decision {
    let who = check.account.as_ref();
    let who = who.map_or("the user".to_owned(), |own| {
        format!("{}/{}", own.namespace, own.name)
    });
    let what = match &check.target {
        CheckTarget::Path(path) => path.clone(),
        CheckTarget::Resource(of) => format!(
            "{}.{}/{} {}/{} {} {}",
            of.resource,
            of.group,
            of.subresource,
            of.namespace,
            of.name,
            of.field_selector,
            of.label_selector
        ),
    };
    Decision {
        allowed: check.verb == "get",
        reason: format!("{who} {what}"),
        error: None,
    }
}

#[test]
fn objects_without_a_schema_show_their_own_names() {
    let case = Case::new(
        json!({"a-b": 1, "spec": {"replicas": 3, "ratio": 0.5, "on": true, "none": null}, "l": [1, "x"]}),
    );
    for (source, expected) in [
        ("object['a-b'] + 1", "2"),
        ("object.spec.replicas > 2", "true"),
        ("object.spec.ratio * 2.0", "1"),
        ("object.l[1]", "\"x\""),
        ("has(object.spec.none) && object.spec.none == null", "true"),
        ("has(object.spec.other)", "false"),
        ("object.spec.other == 1", "fault: no such key: other"),
        ("object.other.deeper == 1", "fault: no such key: other"),
        ("oldObject == null", "true"),
        ("has(oldObject.spec)", "false"),
        ("oldObject.spec == 1", "fault: no such key: spec"),
        ("object.?spec.?other.orValue(7)", "7"),
        (
            "object.spec.map(k, k)",
            "[\"none\",\"on\",\"ratio\",\"replicas\"]",
        ),
        ("type(object.spec.replicas) == int", "true"),
        (
            "object.spec.replicas + 'x' == ''",
            "fault: no such overload",
        ),
        ("params == null", "true"),
        ("request.operation + request.namespace", "\"CREATEn\""),
        ("has(request.name)", "false"),
        ("namespaceObject.metadata.labels['a']", "\"b\""),
        ("request.userInfo.username", "\"ann\""),
    ] {
        assert_eq!(case.value(source), expected, "{source}");
    }
}

#[test]
fn what_is_declared_is_checked_before_it_runs() {
    let case = Case::new(Json::Null);
    for (source, expected) in [
        (
            "request.uid == ''",
            "compilation failed: ERROR: <input>:1:8: undefined field 'uid'",
        ),
        (
            "namespaceObject.metadata.uid == ''",
            "compilation failed: ERROR: <input>:1:25: undefined field 'uid'",
        ),
        (
            "variables.x == 1",
            "compilation failed: ERROR: <input>:1:10: undefined field 'x'",
        ),
        (
            "authorizer.check('get')",
            "compilation failed: ERROR: <input>:1:17: found no matching overload for 'check' applied to 'kubernetes.authorization.Authorizer.(string)'",
        ),
    ] {
        assert_eq!(case.value(source), expected, "{source}");
    }
    let environment = Environment::new(false);
    let refused =
        |source: &str, wanted: &[Type]| environment.compile(source, wanted, None).unwrap_err();
    assert_eq!(
        refused("'a'", CONDITION),
        "must evaluate to bool but got string"
    );
    assert_eq!(
        refused("object", CONDITION),
        "must evaluate to bool but got dyn"
    );
    assert_eq!(
        refused("{'a': [timestamp(1)]}", CONDITION),
        "must evaluate to bool but got map(string, list(google.protobuf.Timestamp))"
    );
    assert_eq!(
        refused("1", ANNOTATION),
        "must evaluate to one of [string null_type] but got int"
    );
    let undeclared = "compilation failed: ERROR: <input>:1:1: undeclared reference to";
    assert!(refused("params == 1", CONDITION).starts_with(undeclared));
    assert!(refused("variables.x == 1", CONDITION).starts_with(undeclared));
    let messages = environment.of_messages();
    let refusal = messages.compile("authorizer.path('/').check('get').reason()", MESSAGE, None);
    assert!(refusal.unwrap_err().starts_with(undeclared));
}

#[test]
fn the_authorizer_is_asked_about_users_accounts_and_paths() {
    let mut case = Case::new(Json::Null);
    case.resource = ResourceCheck {
        resource: "pods".to_owned(),
        namespace: "n".to_owned(),
        name: "p".to_owned(),
        ..ResourceCheck::default()
    };
    for (source, expected) in [
        ("authorizer.path('/healthz').check('get').allowed()", "true"),
        (
            "authorizer.path('/healthz').check('post').allowed()",
            "false",
        ),
        (
            "authorizer.path(' ').check('get').allowed()",
            "fault: path must not be empty",
        ),
        (
            "authorizer.group('apps').resource('deployments').subresource('scale').namespace('x').name('y').check('get').reason()",
            "\"the user deployments.apps/scale x/y  \"",
        ),
        (
            "authorizer.serviceAccount('x', 'sa').group('').resource('pods').fieldSelector('a=b').labelSelector('c').check('get').reason()",
            "\"x/sa pods./ / a=b c\"",
        ),
        (
            "authorizer.serviceAccount('X', 'sa').path('/').check('get').allowed()",
            "fault: Invalid service account namespace",
        ),
        (
            "authorizer.serviceAccount('x', 'S').path('/').check('get').allowed()",
            "fault: Invalid service account name",
        ),
        (
            "authorizer.requestResource.check('get').reason()",
            "\"the user pods./ n/p  \"",
        ),
        (
            "authorizer.requestResource.check('a').errored() || authorizer.requestResource.check('a').error() != ''",
            "false",
        ),
        // A question costs so much that an expression may ask two.
        (
            "authorizer.path('/a').check('x').allowed() || authorizer.path('/b').check('x').allowed()",
            "false",
        ),
        (
            "['a', 'b', 'c'].exists(p, authorizer.path(p).check('x').allowed())",
            "fault: operation cancelled: actual cost limit exceeded",
        ),
    ] {
        assert_eq!(case.value(source), expected, "{source}");
    }
}

#[test]
fn variables_are_composed_and_evaluated_where_they_are_used() {
    let case = Case::new(json!({"n": 2}));
    let environment = Environment::new(true);
    let composed = environment.compose([
        ("twice", "object.n * 2"),
        ("sum", "variables.twice + 1"),
        ("bad", "object.missing"),
        ("names", "['a']"),
        ("allowed", "authorizer.path('/').check('get').allowed()"),
    ]);
    for (source, expected) in [
        ("variables.sum == 5", "true"),
        ("variables.names[0] + 'x'", "\"ax\""),
        (
            "variables.names[0] + 1",
            "compilation failed: ERROR: <input>:1:20: found no matching overload for '_+_' applied to '(string, int)'",
        ),
        ("true || variables.bad", "true"),
        (
            "variables.bad",
            "fault: composited variable \"bad\" fails to evaluate: no such key: missing",
        ),
        ("variables.bad || true", "true"),
        ("variables.allowed", "true"),
    ] {
        assert_eq!(case.value_with(source, &composed), expected, "{source}");
    }
}

#[test]
fn a_long_chain_of_variables_is_evaluated_step_by_step() {
    let names: Vec<String> = (0..400).map(|i| format!("v{i}")).collect();
    let sources: Vec<String> = (0..400)
        .map(|i: usize| match i.checked_sub(1) {
            None => "1".to_owned(),
            Some(before) => format!("variables.v{before} + 1"),
        })
        .collect();
    let pairs = names
        .iter()
        .map(String::as_str)
        .zip(sources.iter().map(String::as_str));
    let composed = Environment::new(false).compose(pairs);
    let case = Case::new(Json::Null);
    assert_eq!(case.value_with("variables.v399", &composed), "400");
}

#[test]
fn what_variables_cost_is_counted_apart_and_once() {
    let composed = Environment::new(false).compose([("x", "[1, 2].map(i, i + 1)")]);
    let environment = Environment::new(false);
    let program = environment
        .compile(
            "size(variables.x) + size(variables.x)",
            &[],
            Some(&composed),
        )
        .unwrap();
    let inputs = Inputs {
        object: &Json::Null,
        old_object: &Json::Null,
        request: &Json::Null,
        params: &Json::Null,
        namespace: &Json::Null,
        resource: &ResourceCheck::default(),
    };
    let mut activation = inputs.activation(Some(&composed));
    let own = activation.eval(&program, CALL_LIMIT).cost;
    let composed_cost = activation.take_composed_cost();
    assert!(own > 0 && composed_cost > 20, "{own}, {composed_cost}");
    assert_eq!(activation.eval(&program, CALL_LIMIT).cost, own);
    assert_eq!(activation.take_composed_cost(), 0);
}

#[test]
fn objects_and_patches_are_made() {
    let case = Case::new(json!({"spec": {"containers": [{"name": "a"}]}}));
    for (source, expected) in [
        (
            "Object{spec: Object.spec{replicas: 1, ?paused: optional.none()}}",
            r#"{"spec":{"replicas":1}}"#,
        ),
        (
            "Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name})}}",
            r#"{"spec":{"containers":[{"name":"a"}]}}"#,
        ),
        (
            "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: {'x': 1}}]",
            r#"[{"op":"add","path":"/metadata/labels/a~1b~0c","value":{"x":1}}]"#,
        ),
        (
            "JSONPatch{op: 1}",
            "compilation failed: ERROR: <input>:1:13: expected type of field 'op' is 'string' but provided type is 'int'",
        ),
        (
            "Other{a: 1}",
            "compilation failed: ERROR: <input>:1:6: undeclared reference to 'Other' (in container '')",
        ),
    ] {
        assert_eq!(case.value(source), expected, "{source}");
    }
    let plain = Environment::new(false);
    for source in ["Object{}", "jsonpatch.escapeKey('a')"] {
        assert!(plain.compile(source, &[], None).is_err(), "{source}");
    }
}

#[test]
fn parts_of_an_object_are_named_after_their_place() {
    let composed = Composed::default();
    let environment = Environment::new(false).of_mutations();
    let check = |source: &str| {
        let program = environment
            .compile(source, &apply_configuration(), Some(&composed))
            .unwrap();
        let mut activation = Activation::new(Vec::new(), None);
        match activation.eval(&program, CALL_LIMIT).result {
            Ok(Value::Made(made)) => made.check_type_names(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        check("Object{spec: Object.spec{l: [Object.spec.l{a: 1}]}}"),
        Ok(())
    );
    assert_eq!(
        check("Object{spec: Object.wrong{}}").unwrap_err(),
        "unexpected type name \"Object.wrong\", expected \"Object.spec\", which matches field name path from root Object type"
    );
}
