//! Admission policies: which requests they concern, with which parameters, and what they do.

use std::sync::Arc;

use parking_lot::Mutex;
use sendo_server::{Audit, AuditLog, AuditPolicy};
use serde_json::{Value, json};

use super::support::{Answer, Fixture};

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DENIED: &str = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";

async fn make(f: &Fixture, path: &str, object: Value) {
    let made = f.json(&format!("POST {path}"), object).await;
    assert_eq!(made.code, 201, "{}", made.body);
}

fn with(mut object: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

/// The match constraints of a policy about all ConfigMaps.
fn config_maps() -> Value {
    json!({"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"],
    }]})
}

/// Makes the validating policy `p` for ConfigMaps, with other members of its spec.
async fn validate(f: &Fixture, spec: Value) {
    let spec = with(json!({"matchConstraints": config_maps()}), &spec);
    let policy = json!({"metadata": {"name": "p"}, "spec": spec});
    make(
        f,
        &format!("{REGISTRATION}/validatingadmissionpolicies"),
        policy,
    )
    .await;
}

/// Binds the policy `p`, with other members of the binding's spec.
async fn bind(f: &Fixture, name: &str, spec: Value) {
    let spec = with(
        json!({"policyName": "p", "validationActions": ["Deny"]}),
        &spec,
    );
    let binding = json!({"metadata": {"name": name}, "spec": spec});
    let path = format!("{REGISTRATION}/validatingadmissionpolicybindings");
    make(f, &path, binding).await;
}

async fn create(f: &Fixture, name: &str, data: Value) -> Answer {
    let map = json!({"metadata": {"name": name, "labels": {"own": "1"}}, "data": data});
    f.json(&format!("POST {CONFIG_MAPS}"), map).await
}

/// Specs of a policy, and what a client gets of a ConfigMap `a` with the data `{"k": "1"}`.
fn validations() -> Vec<(Value, u16, &'static str)> {
    let one = |expression: &str| json!({"validations": [{"expression": expression}]});
    vec![
        (one("object.data.k == '1'"), 201, ""),
        (
            one("object.data.k == '2'"),
            422,
            "failed expression: object.data.k == '2'",
        ),
        (
            json!({"validations": [{"expression": "false", "message": " no ", "reason": "Forbidden"}]}),
            403,
            "no",
        ),
        (
            json!({"validations": [{"expression": "false", "reason": "RequestEntityTooLarge",
                                    "messageExpression": "'k is ' + object.data.k", "message": "no"}]}),
            413,
            "k is 1",
        ),
        // A message without a value, of several lines or too long gives way to the other one.
        (
            json!({"validations": [{"expression": "false", "messageExpression": "object.none", "message": "no"}]}),
            0,
            "",
        ),
        (
            json!({"validations": [{"expression": "false", "messageExpression": "string(object.data.none)", "message": "no"}]}),
            422,
            "no",
        ),
        (
            json!({"validations": [{"expression": "false", "messageExpression": "'a\\nb'"}]}),
            422,
            "failed expression: false",
        ),
        (
            one("object.data.none == ''"),
            422,
            "expression 'object.data.none == ''' resulted in error: no such key: none",
        ),
        (
            json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.data.none == ''"}]}),
            201,
            "",
        ),
        (
            json!({"variables": [{"name": "k", "expression": "object.data.k"},
                                 {"name": "kk", "expression": "variables.k + variables.k"}],
                   "validations": [{"expression": "variables.kk == '1'", "messageExpression": "'got ' + variables.kk"}]}),
            422,
            "got 11",
        ),
        (
            one("namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'other'"),
            422,
            "failed expression: namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'other'",
        ),
        (
            one(
                "request.resource.resource == 'configmaps' && request.namespace == 'default' && request.name == 'a'",
            ),
            201,
            "",
        ),
        (
            one(
                "authorizer.serviceAccount('default', 'x').group('').resource('pods').namespace('default').check('get').allowed()",
            ),
            422,
            "failed expression: authorizer.serviceAccount('default', 'x').group('').resource('pods').namespace('default').check('get').allowed()",
        ),
        (
            json!({"matchConditions": [{"name": "c", "expression": "object.metadata.name != 'a'"}],
                   "validations": [{"expression": "false"}]}),
            201,
            "",
        ),
        (
            json!({"matchConditions": [{"name": "c", "expression": "object.none == 1"}],
                   "validations": [{"expression": "false"}]}),
            422,
            "expression 'object.none == 1' resulted in error: no such key: none",
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_validating_policy_decides_by_its_expressions() {
    for (spec, code, message) in validations() {
        let f = Fixture::start().await;
        if code == 0 {
            // A message must be a text.
            let spec = with(json!({"matchConstraints": config_maps()}), &spec);
            let policy = json!({"metadata": {"name": "p"}, "spec": spec});
            let line = format!("POST {REGISTRATION}/validatingadmissionpolicies");
            let (code, text) = f.json(&line, policy).await.refusal();
            assert_eq!(code, 422);
            assert!(
                text.ends_with("must evaluate to string but got dyn"),
                "{text}"
            );
            continue;
        }
        validate(&f, spec.clone()).await;
        bind(&f, "b", json!({})).await;
        let answer = create(&f, "a", json!({"k": "1"})).await;
        assert_eq!(answer.code, code, "{spec}: {}", answer.body);
        if code != 201 {
            let expected = format!("configmaps \"a\" is forbidden: {DENIED}{message}");
            assert_eq!(answer.refusal().1, expected, "{spec}");
            let cause = &answer.body["details"]["causes"][0]["message"];
            assert_eq!(*cause, format!("{DENIED}{message}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_counts_while_it_is_bound() {
    let f = Fixture::start().await;
    validate(&f, json!({"validations": [{"expression": "false"}]})).await;
    assert_eq!(create(&f, "a", json!({})).await.code, 201);
    bind(
        &f,
        "b",
        json!({"matchResources": {"objectSelector": {"matchLabels": {"own": "2"}}}}),
    )
    .await;
    assert_eq!(create(&f, "b", json!({})).await.code, 201);
    bind(&f, "c", json!({})).await;
    assert_eq!(create(&f, "c", json!({})).await.code, 422);
    let deletion = f.delete(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(deletion.code, 422, "deletions are validated, too");
    f.delete(&format!(
        "{REGISTRATION}/validatingadmissionpolicybindings/c"
    ))
    .await;
    assert_eq!(create(&f, "d", json!({})).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn excluded_resources_names_and_versions_are_left_alone() {
    let f = Fixture::start().await;
    let mut constraints = config_maps();
    constraints["excludeResourceRules"] = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"],
        "resourceNames": ["free"],
    }]);
    let spec = json!({"matchConstraints": constraints, "validations": [{"expression": "false"}]});
    validate(&f, spec).await;
    bind(&f, "b", json!({})).await;
    assert_eq!(create(&f, "free", json!({})).await.code, 201);
    assert_eq!(create(&f, "bound", json!({})).await.code, 422);
}

#[tokio::test(start_paused = true)]
async fn an_equivalent_version_is_what_the_expression_sees() {
    let f = Fixture::start().await;
    let rule = |version: &str| {
        json!({"resourceRules": [{
            "apiGroups": ["autoscaling"], "apiVersions": [version], "operations": ["CREATE"],
            "resources": ["horizontalpodautoscalers"],
        }]})
    };
    let expression = "request.kind.version == 'v1' && request.requestKind.version == 'v2' && \
                      object.apiVersion == 'autoscaling/v1' && object.spec.targetCPUUtilizationPercentage == 50";
    let spec = json!({"matchConstraints": rule("v1"), "validations": [{"expression": format!("!({expression})")}]});
    validate(&f, spec).await;
    bind(&f, "b", json!({})).await;
    let scaler = json!({"metadata": {"name": "s"}, "spec": {
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
    }});
    let line = "POST /apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let answer = f.json(line, scaler).await;
    assert_eq!(answer.code, 422, "{}", answer.body);
}

/// References to parameters, and what a client gets of a ConfigMap where parameters say which
/// data it may have.
fn parameters() -> Vec<(Value, &'static str, u16, &'static str)> {
    let by_name =
        |name: &str, action: &str| json!({"name": name, "parameterNotFoundAction": action});
    let missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    vec![
        (by_name("one", "Deny"), "1", 201, ""),
        (
            by_name("one", "Deny"),
            "2",
            422,
            "failed expression: object.data.k == params.data.k",
        ),
        (by_name("none", "Deny"), "1", 422, missing),
        (by_name("none", "Allow"), "1", 201, ""),
        (
            json!({"selector": {"matchLabels": {"is": "param"}}, "parameterNotFoundAction": "Deny"}),
            "1",
            422,
            "failed expression: object.data.k == params.data.k",
        ),
        (
            json!({"selector": {"matchLabels": {"is": "none"}}, "parameterNotFoundAction": "Deny"}),
            "1",
            422,
            missing,
        ),
        (
            json!({"name": "far", "namespace": "elsewhere", "parameterNotFoundAction": "Deny"}),
            "3",
            201,
            "",
        ),
        (
            json!(null),
            "1",
            422,
            "expression 'object.data.k == params.data.k' resulted in error: no such key: data",
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn parameters_are_found_by_name_or_by_their_labels() {
    for (reference, k, code, message) in parameters() {
        let f = Fixture::start().await;
        f.json(
            "POST /api/v1/namespaces",
            json!({"metadata": {"name": "elsewhere"}}),
        )
        .await;
        for (namespace, name, k) in [
            ("default", "one", "1"),
            ("default", "two", "2"),
            ("elsewhere", "far", "3"),
        ] {
            let map =
                json!({"metadata": {"name": name, "labels": {"is": "param"}}, "data": {"k": k}});
            make(
                &f,
                &format!("/api/v1/namespaces/{namespace}/configmaps"),
                map,
            )
            .await;
        }
        let spec = json!({
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [{"expression": "object.data.k == params.data.k"}],
        });
        validate(&f, spec).await;
        let binding = match reference.is_null() {
            true => json!({}),
            false => json!({"paramRef": reference}),
        };
        bind(&f, "b", binding).await;
        let answer = create(&f, "a", json!({"k": k})).await;
        assert_eq!(answer.code, code, "{reference}: {}", answer.body);
        if code != 201 {
            let expected = format!("configmaps \"a\" is forbidden: {DENIED}{message}");
            assert_eq!(answer.refusal().1, expected, "{reference}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_of_parameters_that_is_not_served_is_a_fault_of_the_policy() {
    for (failure_policy, code) in [("Fail", 422), ("Ignore", 201)] {
        let f = Fixture::start().await;
        let spec = json!({
            "failurePolicy": failure_policy,
            "paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"},
            "validations": [{"expression": "true"}],
        });
        validate(&f, spec).await;
        let reference = json!({"name": "x", "parameterNotFoundAction": "Deny"});
        bind(&f, "b", json!({"paramRef": reference})).await;
        let answer = create(&f, "a", json!({})).await;
        assert_eq!(answer.code, code);
        if code == 422 {
            let expected = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to \
                            configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'";
            assert_eq!(answer.refusal().1, expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_warns_or_only_notes() {
    let events: Arc<Mutex<Vec<Value>>> = Arc::default();
    let taken = Arc::clone(&events);
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]";
    let audit = Audit {
        policy: AuditPolicy::from_text(policy).unwrap(),
        log: AuditLog::function(move |event| {
            taken.lock().push(serde_json::from_str(event).unwrap())
        }),
    };
    let f = Fixture::start_with(|options| options.audit = Some(audit)).await;
    f.json(
        "POST /api/v1/namespaces",
        json!({"metadata": {"name": "default"}}),
    )
    .await;
    let spec = json!({
        "validations": [{"expression": "object.metadata.name == 'good'", "message": "be good"}],
        "auditAnnotations": [
            {"key": "named", "valueExpression": " 'it is ' + object.metadata.name "},
            {"key": "none", "valueExpression": "null"},
        ],
    });
    validate(&f, spec).await;
    bind(&f, "b", json!({"validationActions": ["Warn", "Audit"]})).await;
    events.lock().clear();
    let answer = create(&f, "a", json!({})).await;
    assert_eq!(answer.code, 201);
    assert_eq!(
        answer.warnings,
        ["299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': be good\""]
    );
    let event = events.lock().remove(0);
    let annotations = &event["annotations"];
    assert_eq!(annotations["p/named"], "it is a");
    assert_eq!(annotations.get("p/none"), None);
    assert_eq!(
        annotations["validation.policy.admission.k8s.io/validation_failure"],
        r#"[{"message":"be good","policy":"p","binding":"b","expressionIndex":0,"validationActions":["Warn","Audit"]}]"#
    );
    assert!(create(&f, "good", json!({})).await.warnings.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_audit_annotation_without_a_value_refuses_where_failures_do() {
    for (failure_policy, code) in [("Fail", 422), ("Ignore", 201)] {
        let f = Fixture::start().await;
        let spec = json!({
            "failurePolicy": failure_policy,
            "auditAnnotations": [{"key": "k", "valueExpression": "string(object.data.none)"}],
        });
        validate(&f, spec).await;
        // Whatever the actions of the binding are.
        bind(&f, "b", json!({"validationActions": ["Audit"]})).await;
        assert_eq!(create(&f, "a", json!({})).await.code, code);
    }
}

#[tokio::test(start_paused = true)]
async fn expressions_have_a_budget_each_and_together() {
    let f = Fixture::start().await;
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let nested = |depth: usize| {
        (0..depth).fold("true".to_owned(), |inner, i| {
            format!("{list}.all(x{i}, {inner})")
        })
    };
    validate(&f, json!({"validations": [{"expression": nested(7)}]})).await;
    bind(&f, "b", json!({})).await;
    let (code, text) = create(&f, "a", json!({})).await.refusal();
    assert_eq!(code, 422);
    assert!(
        text.ends_with("resulted in error: operation cancelled: actual cost limit exceeded"),
        "{text}"
    );
    f.delete(&format!("{REGISTRATION}/validatingadmissionpolicies/p"))
        .await;
    // Thirty that cost some hundred thousand each are too much together.
    let many = vec![json!({"expression": nested(5)}); 30];
    validate(&f, json!({"validations": many})).await;
    let (code, text) = create(&f, "a", json!({})).await.refusal();
    assert_eq!(code, 422);
    assert_eq!(
        text,
        format!(
            "configmaps \"a\" is forbidden: {DENIED}validation failed due to running out of cost budget, no further \
             validation rules will be run"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn no_policy_is_about_policies() {
    let f = Fixture::start().await;
    let everything = json!({"resourceRules": [{
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"],
    }]});
    let spec = json!({"matchConstraints": everything, "validations": [{"expression": "false"}]});
    validate(&f, spec).await;
    bind(&f, "b", json!({})).await;
    assert_eq!(create(&f, "a", json!({})).await.code, 422);
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let line = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(f.json(line, review).await.code, 201);
    bind(&f, "c", json!({})).await;
    let gone = f
        .delete(&format!("{REGISTRATION}/validatingadmissionpolicies/p"))
        .await;
    assert_eq!(gone.code, 200, "{}", gone.body);
    assert_eq!(create(&f, "a", json!({})).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn expressions_are_compiled_when_a_policy_is_written() {
    let f = Fixture::start().await;
    for (spec, field, fault) in [
        (
            json!({"validations": [{"expression": "object.x +"}]}),
            "validations[0].expression",
            "compilation failed: ERROR: <input>:1:11: Syntax error",
        ),
        (
            json!({"validations": [{"expression": "'a'"}]}),
            "validations[0].expression",
            "must evaluate to bool but got string",
        ),
        (
            json!({"validations": [{"expression": "params.x"}]}),
            "validations[0].expression",
            "undeclared reference to 'params'",
        ),
        (
            json!({"validations": [{"expression": "variables.x"}]}),
            "validations[0].expression",
            "undeclared reference to 'variables'",
        ),
        (
            json!({"variables": [{"name": "y", "expression": "1"}], "validations": [{"expression": "variables.x"}]}),
            "validations[0].expression",
            "undefined field 'x'",
        ),
        (
            json!({"validations": [{"expression": "true", "messageExpression": "authorizer.path('/').check('get').reason()"}]}),
            "validations[0].messageExpression",
            "undeclared reference to 'authorizer'",
        ),
        (
            json!({"auditAnnotations": [{"key": "k", "valueExpression": "1"}]}),
            "auditAnnotations[0].valueExpression",
            "must evaluate to one of [string null_type] but got int",
        ),
        (
            json!({"variables": [{"name": "x", "expression": "variables.y"}, {"name": "y", "expression": "1"}],
                   "validations": [{"expression": "true"}]}),
            "variables[0].expression",
            "undefined field 'y'",
        ),
    ] {
        let spec = with(json!({"matchConstraints": config_maps()}), &spec);
        let policy = json!({"metadata": {"name": "p"}, "spec": spec});
        let line = format!("POST {REGISTRATION}/validatingadmissionpolicies");
        let answer = f.json(&line, policy).await;
        assert_eq!(answer.code, 422, "{spec}");
        let cause = &answer.body["details"]["causes"][0];
        assert_eq!(cause["field"], format!("spec.{field}"), "{spec}");
        assert!(
            cause["message"].as_str().unwrap().contains(fault),
            "{spec}: {cause}"
        );
    }
}

/// Makes the mutating policy `name` for ConfigMaps that are created, with its binding.
async fn mutate(f: &Fixture, name: &str, spec: Value) {
    let mut constraints = config_maps();
    constraints["resourceRules"][0]["operations"] = json!(["CREATE", "UPDATE"]);
    let spec = with(
        json!({"matchConstraints": constraints, "reinvocationPolicy": "Never"}),
        &spec,
    );
    let policy = json!({"metadata": {"name": name}, "spec": spec});
    make(
        f,
        &format!("{REGISTRATION}/mutatingadmissionpolicies"),
        policy,
    )
    .await;
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": name}});
    let binding = with(binding, &json!({"metadata": {"name": format!("{name}-b")}}));
    make(
        f,
        &format!("{REGISTRATION}/mutatingadmissionpolicybindings"),
        binding,
    )
    .await;
}

fn apply(expression: &str) -> Value {
    json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]})
}

fn patch(expression: &str) -> Value {
    json!({"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]})
}

#[tokio::test(start_paused = true)]
async fn a_mutating_policy_merges_or_patches() {
    let labels = |more: &[&str]| {
        let mut labels = json!({"own": "1"});
        for label in more {
            labels[*label] = "yes".into();
        }
        labels
    };
    for (spec, expected) in [
        (
            apply("Object{metadata: Object.metadata{labels: {'made': 'yes'}}}"),
            labels(&["made"]),
        ),
        (
            patch(
                "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('x/y'), value: 'yes'}]",
            ),
            labels(&["x/y"]),
        ),
        (
            patch(
                "[JSONPatch{op: 'test', path: '/metadata/labels/own', value: '2'}, JSONPatch{op: 'remove', path: '/metadata/labels'}]",
            ),
            labels(&[]),
        ),
        (
            patch(
                "object.metadata.name == 'other' ? [JSONPatch{op: 'remove', path: '/metadata/labels'}] : []",
            ),
            labels(&[]),
        ),
        (
            with(
                apply("Object{metadata: Object.metadata{labels: {'made': variables.v}}}"),
                &json!({"variables": [{"name": "v", "expression": "'yes'"}]}),
            ),
            labels(&["made"]),
        ),
        (
            with(
                apply("Object{metadata: Object.metadata{labels: {'made': 'yes'}}}"),
                &json!({"matchConditions": [{"name": "c", "expression": "object.metadata.name == 'other'"}]}),
            ),
            labels(&[]),
        ),
    ] {
        let f = Fixture::start().await;
        mutate(&f, "m", spec.clone()).await;
        let made = create(&f, "a", json!({"k": "1"})).await;
        assert_eq!(made.code, 201, "{spec}: {}", made.body);
        assert_eq!(made.body["metadata"]["labels"], expected, "{spec}");
        let managers = &made.body["metadata"]["managedFields"];
        let owned = managers.to_string();
        assert!(
            !owned.contains("f:made"),
            "what a policy sets belongs to nobody: {owned}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_mutating_policy_cannot_do_refuses_where_failures_do() {
    let by = "policy 'm' with binding 'm-b' denied request: ";
    for (spec, code, message) in [
        (
            apply("Object{metadata: Object.metadata{labels: {'made': object.data.none}}}"),
            403,
            format!(
                "{by}expression 'Object{{metadata: Object.metadata{{labels: {{'made': object.data.none}}}}}}' resulted in error: no such key: none"
            ),
        ),
        (
            apply("Object{spec: Object.spec{}}"),
            403,
            format!(
                "{by}error applying patch: failed to convert patch object to typed object: .spec: field not declared in schema"
            ),
        ),
        (
            apply("Object{metadata: Object.wrong{}}"),
            403,
            format!(
                "{by}type mismatch: unexpected type name \"Object.wrong\", expected \"Object.metadata\", which matches field name path from root Object type"
            ),
        ),
        (
            patch("[JSONPatch{op: 'remove', path: '/data/none'}]"),
            403,
            format!(
                "{by}JSON Patch: error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value"
            ),
        ),
        (
            patch("[JSONPatch{op: 'add', path: '/bogus', value: 1}]"),
            500,
            "Internal error occurred: strict decoding error: unknown field \"bogus\"".to_owned(),
        ),
    ] {
        let f = Fixture::start().await;
        mutate(&f, "m", spec.clone()).await;
        let answer = create(&f, "a", json!({"k": "1"})).await;
        assert_eq!(answer.refusal(), (code, message), "{spec}");
        if code == 403 {
            assert_eq!(answer.body["reason"], "Invalid");
            assert_eq!(
                answer.body["details"]["causes"].as_array().unwrap().len(),
                1
            );
            let f = Fixture::start().await;
            mutate(&f, "m", with(spec, &json!({"failurePolicy": "Ignore"}))).await;
            assert_eq!(create(&f, "a", json!({"k": "1"})).await.code, 201);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn mutating_policies_follow_each_other_and_are_asked_again() {
    let f = Fixture::start().await;
    // By name, `a` comes first: it sees what `b` has made in the second round only.
    let count = "[JSONPatch{op: 'add', path: '/data/seen', value: string(size(object.data))}]";
    mutate(
        &f,
        "a",
        with(patch(count), &json!({"reinvocationPolicy": "IfNeeded"})),
    )
    .await;
    mutate(
        &f,
        "b",
        patch("[JSONPatch{op: 'add', path: '/data/b', value: '1'}]"),
    )
    .await;
    let made = create(&f, "x", json!({"k": "1"})).await;
    assert_eq!(made.body["data"], json!({"b": "1", "k": "1", "seen": "3"}));
}
