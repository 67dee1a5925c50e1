use serde_json::{Value, json};

use super::*;

fn classes() -> DeviceClasses {
    DeviceClasses::new(&[
        json!({"metadata": {"name": "plain"}}),
        json!({"metadata": {"name": "fast"}, "spec": {"extendedResourceName": "example.dev/fast"}}),
    ])
}

/// What an object uses, as a list of resources.
fn used(group: &str, plural: &str, object: &Value) -> Value {
    let classes = classes();
    let surroundings = Surroundings {
        now: "2026-01-01T00:00:00Z".parse().expect("a time"),
        classes: &classes,
    };
    let evaluator = Evaluator::new(group, plural).expect("a resource that is counted");
    list(&evaluator.usage(object, surroundings))
}

fn pod(containers: Value) -> Value {
    json!({"spec": {"containers": containers}})
}

#[test]
fn pods_use_what_their_containers_ask_for() {
    let one = json!([{"name": "a", "resources": {
        "requests": {"cpu": "100m", "memory": "1Gi", "example.dev/gpu": "2", "hugepages-2Mi": "4Mi"},
        "limits": {"cpu": "1", "ephemeral-storage": "1G"},
    }}]);
    assert_eq!(
        used("", "pods", &pod(one)),
        json!({
            "count/pods": "1", "pods": "1",
            "cpu": "100m", "requests.cpu": "100m", "limits.cpu": "1",
            "memory": "1Gi", "requests.memory": "1Gi",
            "limits.ephemeral-storage": "1G",
            "hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi",
            "requests.example.dev/gpu": "2",
        })
    );
    assert_eq!(
        used("", "pods", &pod(json!([{"name": "a"}]))),
        json!({"count/pods": "1", "pods": "1"})
    );
}

#[test]
fn init_containers_sidecars_overhead_and_the_pod_as_a_whole_count_as_the_scheduler_counts_them() {
    let asks = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    let cases = [
        // The largest init container, beside the sidecars before it.
        (
            json!({"containers": [{"name": "a", "resources": asks("1")}], "initContainers": [
                {"name": "s", "restartPolicy": "Always", "resources": asks("1")},
                {"name": "i", "resources": asks("3")}]}),
            ("4", "4"),
        ),
        (
            json!({"containers": [{"name": "a", "resources": asks("2")}, {"name": "b", "resources": asks("2")}],
                   "initContainers": [{"name": "i", "resources": asks("3")}]}),
            ("4", "4"),
        ),
        (
            json!({"containers": [{"name": "a", "resources": asks("1")}], "overhead": {"cpu": "250m"}}),
            ("1250m", "1250m"),
        ),
        (
            json!({"containers": [{"name": "a", "resources": asks("1")}], "resources": asks("5")}),
            ("5", "5"),
        ),
    ];
    for (spec, (requests, limits)) in cases {
        let used = used("", "pods", &json!({"spec": spec}));
        assert_eq!(used["requests.cpu"], requests, "{spec}");
        assert_eq!(used["limits.cpu"], limits, "{spec}");
    }
}

#[test]
fn a_resize_counts_with_the_larger_of_what_is_asked_for_and_what_is_there() {
    let mut pod = pod(json!([{"name": "a", "resources": {"requests": {"cpu": "1"}}}]));
    pod["status"] = json!({"containerStatuses": [
        {"name": "a", "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "2"}}}]});
    assert_eq!(used("", "pods", &pod)["cpu"], "3");
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4".into();
    assert_eq!(used("", "pods", &pod)["cpu"], "4");
    pod["status"]["conditions"] = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
    assert_eq!(used("", "pods", &pod)["cpu"], "3");
}

#[test]
fn pods_that_have_ended_keep_their_place_and_nothing_else() {
    let ended = json!({"count/pods": "1"});
    for phase in ["Succeeded", "Failed"] {
        assert_eq!(
            used("", "pods", &json!({"status": {"phase": phase}})),
            ended
        );
    }
    let deleted = |time: &str| json!({"metadata": {"deletionTimestamp": time, "deletionGracePeriodSeconds": 30}});
    assert_eq!(used("", "pods", &deleted("2025-12-31T23:59:00Z")), ended);
    assert_eq!(
        used("", "pods", &deleted("2025-12-31T23:59:40Z")),
        json!({"count/pods": "1", "pods": "1"})
    );
}

#[test]
fn services_use_node_ports_and_load_balancers() {
    let service = |type_: &str, more: Value| {
        let mut spec =
            json!({"type": type_, "ports": [{"port": 1}, {"port": 2, "nodePort": 30000}]});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let used = used("", "services", &json!({"spec": spec}));
        [
            "services",
            "services.nodeports",
            "services.loadbalancers",
            "count/services",
        ]
        .map(|name| used[name].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(service("ClusterIP", json!({})), ["1", "0", "0", "1"]);
    assert_eq!(service("NodePort", json!({})), ["1", "2", "0", "1"]);
    assert_eq!(service("LoadBalancer", json!({})), ["1", "2", "1", "1"]);
    let own = json!({"allocateLoadBalancerNodePorts": false});
    assert_eq!(service("LoadBalancer", own), ["1", "1", "1", "1"]);
}

#[test]
fn claims_use_storage_as_a_whole_and_of_their_class() {
    let claim = json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1500m"}}}});
    assert_eq!(
        used("", "persistentvolumeclaims", &claim),
        json!({
            "count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1",
            "requests.storage": "2",
            "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            "fast.storageclass.storage.k8s.io/requests.storage": "2",
        })
    );
    let grown = json!({
        "spec": {"resources": {"requests": {"storage": "1Gi"}}},
        "status": {"allocatedResources": {"storage": "2Gi"}},
    });
    assert_eq!(
        used("", "persistentvolumeclaims", &grown)["requests.storage"],
        "2Gi"
    );
}

#[test]
fn claims_of_devices_use_the_most_that_they_may_get() {
    let claim = json!({"spec": {"devices": {"requests": [
        {"name": "a", "exactly": {"deviceClassName": "plain", "allocationMode": "ExactCount", "count": 2}},
        {"name": "b", "firstAvailable": [
            {"deviceClassName": "fast", "allocationMode": "ExactCount", "count": 1},
            {"deviceClassName": "fast", "allocationMode": "ExactCount", "count": 3},
            {"deviceClassName": "plain", "allocationMode": "All"}]},
    ]}}});
    assert_eq!(
        used("resource.k8s.io", "resourceclaims", &claim),
        json!({
            "count/resourceclaims.resource.k8s.io": "1",
            "plain.deviceclass.resource.k8s.io/devices": "34",
            "requests.deviceclass.resource.kubernetes.io/plain": "34",
            "fast.deviceclass.resource.k8s.io/devices": "3",
            "requests.deviceclass.resource.kubernetes.io/fast": "3",
            "requests.example.dev/fast": "3",
        })
    );
}

#[test]
fn all_other_kinds_are_counted_by_name_and_some_by_an_older_one() {
    assert_eq!(
        used("", "secrets", &Value::Null),
        json!({"count/secrets": "1", "secrets": "1"})
    );
    assert_eq!(
        used("apps", "deployments", &Value::Null),
        json!({"count/deployments.apps": "1"})
    );
    assert_eq!(
        used("example.dev", "widgets", &Value::Null),
        json!({"count/widgets.example.dev": "1"})
    );
    for (group, plural) in [
        ("", "events"),
        ("events.k8s.io", "events"),
        ("", "bindings"),
    ] {
        assert!(Evaluator::new(group, plural).is_none(), "{plural}");
    }
}

#[test]
fn each_kind_uses_the_limits_that_are_its_own() {
    let limits = [
        "count/pods",
        "count/services",
        "cpu",
        "limits.memory",
        "pods",
        "requests.storage",
        "requests.example.dev/fast",
        "requests.example.dev/other",
        "services.nodeports",
        "x.deviceclass.resource.k8s.io/devices",
        "x.storageclass.storage.k8s.io/requests.storage",
        "requests.hugepages-2Mi",
        "configmaps",
        "count/configmaps",
    ];
    let matching = |group: &str, plural: &str| {
        let evaluator = Evaluator::new(group, plural).unwrap();
        evaluator
            .matching(limits, &classes())
            .into_iter()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        matching("", "pods"),
        [
            "count/pods",
            "cpu",
            "limits.memory",
            "pods",
            "requests.example.dev/fast",
            "requests.example.dev/other",
            "requests.hugepages-2Mi"
        ]
    );
    assert_eq!(
        matching("", "services"),
        ["count/services", "services.nodeports"]
    );
    assert_eq!(
        matching("", "persistentvolumeclaims"),
        [
            "requests.storage",
            "x.storageclass.storage.k8s.io/requests.storage"
        ]
    );
    assert_eq!(
        matching("resource.k8s.io", "resourceclaims"),
        [
            "requests.example.dev/fast",
            "x.deviceclass.resource.k8s.io/devices"
        ]
    );
    assert_eq!(
        matching("", "configmaps"),
        ["configmaps", "count/configmaps"]
    );
    assert_eq!(matching("apps", "deployments"), [""; 0]);
}

#[test]
fn a_pod_is_in_the_scopes_that_it_has_and_in_no_other() {
    let plain = pod(json!([{"name": "a"}]));
    let mut asking = pod(json!([{"name": "a", "resources": {"limits": {"memory": "1Gi"}}}]));
    asking["spec"]["activeDeadlineSeconds"] = 60.into();
    asking["spec"]["priorityClassName"] = "high".into();
    asking["spec"]["affinity"] = json!({"podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {
            "topologyKey": "t", "namespaceSelector": {}}}]}});
    let by_name = |scope: &str| json!({"spec": {"scopes": [scope]}});
    let selecting = |operator: &str, values: Value| {
        json!({"spec": {"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": operator, "values": values}]}}})
    };
    let cases = [
        (json!({}), (true, true)),
        (by_name("BestEffort"), (true, false)),
        (by_name("NotBestEffort"), (false, true)),
        (by_name("Terminating"), (false, true)),
        (by_name("NotTerminating"), (true, false)),
        (by_name("CrossNamespacePodAffinity"), (false, true)),
        (by_name("VolumeAttributesClass"), (false, false)),
        (by_name("PriorityClass"), (false, true)),
        (selecting("In", json!(["high", "higher"])), (false, true)),
        (selecting("In", json!(["low"])), (false, false)),
        (selecting("NotIn", json!(["high"])), (true, false)),
        (selecting("DoesNotExist", Value::Null), (true, false)),
    ];
    let evaluator = Evaluator::new("", "pods").unwrap();
    for (quota, (of_plain, of_asking)) in cases {
        assert_eq!(evaluator.is_in_scope(&quota, &plain), of_plain, "{quota}");
        assert_eq!(evaluator.is_in_scope(&quota, &asking), of_asking, "{quota}");
    }
    // What is no pod is in no scope.
    let secrets = Evaluator::new("", "secrets").unwrap();
    assert!(!secrets.is_in_scope(&by_name("NotTerminating"), &Value::Null));
    assert!(secrets.is_in_scope(&json!({}), &Value::Null));
}

#[test]
fn what_is_limited_must_be_said_by_each_container_or_by_the_pod() {
    let evaluator = Evaluator::new("", "pods").unwrap();
    let limited = BTreeSet::from([
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
    ]);
    let mut asking = pod(json!([
        {"name": "b"},
        {"name": "a", "resources": {"requests": {"cpu": "1"}}},
    ]));
    assert_eq!(
        evaluator.check(&limited, &asking),
        Err("must specify limits.memory for: a,b; requests.cpu for: b".to_owned())
    );
    asking["spec"]["resources"] = json!({"limits": {"cpu": "1"}});
    assert_eq!(evaluator.check(&limited, &asking), Ok(()));
    assert_eq!(
        Evaluator::new("", "services")
            .unwrap()
            .check(&limited, &asking),
        Ok(())
    );
}
