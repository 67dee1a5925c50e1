//! Each plugin's rules, on small clusters: which nodes are left, what is said of the others, and
//! the scores.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use sendo::{Event, Random};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::framework::{Cycle, Diagnosis, Plugin, PostFilter, QueuedPod};
use crate::pod::Pod;
use crate::snapshot::Snapshot;
use crate::snapshot::objects::Kept;
use crate::snapshot::pod_info::PodInfo;

fn object<K: DeserializeOwned>(json: Value) -> K {
    serde_json::from_value(json).expect("an object of its kind")
}

fn node(name: &str, labels: Value, more: Value) -> Node {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    });
    for (label, value) in labels.as_object().into_iter().flatten() {
        node["metadata"]["labels"][label] = value.clone();
    }
    for (field, value) in more.as_object().into_iter().flatten() {
        node[field] = value.clone();
    }
    object(node)
}

fn pod(name: &str, labels: Value, spec: Value) -> Pod {
    object(json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": labels},
        "spec": spec,
    }))
}

fn requesting(cpu: &str, memory: &str) -> Value {
    json!({"containers": [{"resources": {"requests": {"cpu": cpu, "memory": memory}}}]})
}

/// A cluster of some nodes.
#[derive(Default)]
struct Cluster(Snapshot);

impl Cluster {
    fn new(nodes: impl IntoIterator<Item = Node>) -> Self {
        let mut cluster = Cluster::default();
        for node in nodes {
            cluster.0.set_node(Arc::new(node));
        }
        cluster.0.sort_nodes();
        cluster
    }

    fn with(mut self, pod: Pod, node: &str) -> Self {
        self.0.add_pod(PodInfo::new(&pod), node);
        self
    }

    fn having<K: Kept + DeserializeOwned>(mut self, json: Value) -> Self {
        let object = Arc::new(object::<K>(json));
        let event = Event::Created {
            object,
            initial: false,
        };
        self.0.objects.follow(&event);
        self
    }

    /// What the plugins say of each node, in the order of their names: `fits`, or why not.
    fn filtered(&self, pod: Pod) -> Vec<String> {
        let pod = QueuedPod::new(Arc::new(pod));
        let random = Random::from_seed(1);
        let mut cycle = Cycle::new(&pod, &self.0, &random);
        let profile = Profile::default_plugins("test");
        let chosen = match profile.run_pre_filter(&mut cycle) {
            Ok((chosen, _)) => chosen,
            Err(rejected) => return vec![rejected.message()],
        };
        let mut nodes: Vec<_> = self.0.nodes().collect();
        nodes.sort_by_key(|node| node.name().to_owned());
        nodes.retain(|node| {
            chosen
                .as_ref()
                .is_none_or(|names| names.contains(node.name()))
        });
        let said = nodes
            .into_iter()
            .map(|node| match profile.run_filters(&cycle, node) {
                Ok(()) => "fits".to_owned(),
                Err(rejected) => rejected.message(),
            });
        said.collect()
    }

    /// The score of each node by one plugin, in the order of their names.
    fn scores(&self, plugin: impl Plugin, pod: Pod) -> Vec<i64> {
        let pod = QueuedPod::new(Arc::new(pod));
        let random = Random::from_seed(1);
        let mut cycle = Cycle::new(&pod, &self.0, &random);
        let mut nodes: Vec<_> = self.0.nodes().collect();
        nodes.sort_by_key(|node| node.name().to_owned());
        Profile::new("test")
            .with(plugin, 1)
            .run_scores(&mut cycle, &nodes)
    }

    /// The node that preemption chooses and the pods that make way, or why there is none.
    fn preempted(&self, pod: Pod) -> Result<(String, Vec<String>), String> {
        let pod = QueuedPod::new(Arc::new(pod));
        let random = Random::from_seed(1);
        let mut cycle = Cycle::new(&pod, &self.0, &random);
        let profile = Profile::default_plugins("test");
        profile
            .run_pre_filter(&mut cycle)
            .map_err(|r| r.message())?;
        let mut diagnosis = Diagnosis {
            nodes: self.0.node_count(),
            ..Diagnosis::default()
        };
        for node in self.0.nodes() {
            if let Err(rejected) = profile.run_filters(&cycle, node) {
                diagnosis.reject(node.id, rejected);
            }
        }
        match profile.run_post_filter(&cycle, &diagnosis) {
            PostFilter::Nominate(nomination) => {
                let victims = nomination.victims.iter();
                let victims = victims.map(|pod| pod.key.name().to_owned());
                Ok((nomination.node, victims.collect()))
            }
            PostFilter::ClearNomination(rejected) | PostFilter::Unchanged(rejected) => {
                Err(rejected.message())
            }
        }
    }
}

#[test]
fn a_node_is_chosen_by_its_name_its_labels_and_its_taints() {
    let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    let cluster = Cluster::new([
        node("a", json!({"disk": "fast", "size": "7"}), json!({})),
        node("b", json!({}), json!({"spec": {"taints": taint}})),
        node("c", json!({}), json!({"spec": {"unschedulable": true}})),
    ]);
    let affinity = |term: Value| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [term],
        }}}})
    };
    let expression = |key: &str, operator: &str, values: Value| {
        let one = json!({"key": key, "operator": operator, "values": values});
        affinity(json!({"matchExpressions": [one]}))
    };
    let tainted = "node(s) had untolerated taint(s)";
    let cordoned = "node(s) were unschedulable";
    let other = "node(s) didn't match Pod's node affinity/selector";
    let table = [
        (json!({}), vec!["fits", tainted, cordoned]),
        (
            json!({"tolerations": [{"operator": "Exists"}]}),
            vec!["fits", "fits", "fits"],
        ),
        (
            json!({"nodeSelector": {"disk": "slow"}, "tolerations": [{"operator": "Exists"}]}),
            vec![other, other, other],
        ),
        (
            expression("size", "Gt", json!(["6"])),
            vec!["fits", tainted, cordoned],
        ),
        (
            expression("size", "Lt", json!(["7"])),
            vec![other, tainted, cordoned],
        ),
        (
            expression("disk", "DoesNotExist", json!(null)),
            vec![other, tainted, cordoned],
        ),
        (
            affinity(json!({"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["a"]},
            ]})),
            vec!["fits"],
        ),
        (
            affinity(json!({"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["a"]},
                {"key": "metadata.name", "operator": "In", "values": ["b"]},
            ]})),
            vec!["pod affinity terms conflict"],
        ),
    ];
    for (spec, expected) in table {
        assert_eq!(
            cluster.filtered(pod("p", json!({}), spec.clone())),
            expected,
            "{spec}"
        );
    }
}

#[test]
fn a_node_has_what_its_pods_leave() {
    let used = json!({"containers": [{
        "resources": {"requests": {"cpu": "3", "memory": "1Gi"}},
        "ports": [{"containerPort": 80, "hostPort": 80}],
    }]});
    let cluster =
        Cluster::new([node("a", json!({}), json!({}))]).with(pod("x", json!({}), used), "a");
    let port = |ip: &str, protocol: &str| {
        let port = json!({"containerPort": 1, "hostPort": 80, "hostIP": ip, "protocol": protocol});
        json!({"containers": [{"ports": [port]}]})
    };
    let taken = "node(s) didn't have free ports for the requested pod ports";
    let sidecar = json!({"containers": [], "initContainers": [
        {"restartPolicy": "Always", "resources": {"requests": {"cpu": "600m"}}},
        {"resources": {"requests": {"cpu": "500m"}}},
    ]});
    let table = [
        (requesting("1", "1Gi"), "fits"),
        (
            requesting("1100m", "9Gi"),
            "Insufficient cpu, Insufficient memory",
        ),
        (sidecar, "Insufficient cpu"),
        (port("10.0.0.1", "TCP"), taken),
        (port("", "UDP"), "fits"),
        (
            json!({"containers": [{"resources": {"requests": {"example.dev/gpu": "1"}}}]}),
            "Insufficient example.dev/gpu",
        ),
    ];
    for (spec, expected) in table {
        assert_eq!(
            cluster.filtered(pod("p", json!({}), spec.clone())),
            [expected],
            "{spec}"
        );
    }
}

#[test]
fn what_a_pod_used_is_free_when_it_is_gone() {
    let mut cluster = Cluster::new([node("a", json!({}), json!({}))]);
    let big = pod("x", json!({"app": "x"}), requesting("4", "1Gi"));
    cluster.0.add_pod(PodInfo::new(&big), "a");
    let next = || pod("p", json!({}), requesting("1", "1Gi"));
    assert_eq!(cluster.filtered(next()), ["Insufficient cpu"]);
    cluster.0.remove_pod(&"ns/x".into());
    assert_eq!(cluster.filtered(next()), ["fits"]);
    assert_eq!(cluster.0.classes().count(), 0);
    cluster.0.remove_node("a");
    cluster.0.sort_nodes();
    assert_eq!(cluster.0.node_count(), 0);
}

#[test]
fn zones_take_turns() {
    let zone = |zone: &str| json!({"topology.kubernetes.io/zone": zone});
    let cluster = Cluster::new([
        node("a", zone("1"), json!({})),
        node("b", zone("1"), json!({})),
        node("c", zone("2"), json!({})),
    ]);
    let order: Vec<_> = cluster
        .0
        .nodes()
        .map(|node| node.name().to_owned())
        .collect();
    assert_eq!(order, ["a", "c", "b"]);
}

#[test]
fn resources_are_scored_by_what_is_left_and_by_the_balance_that_the_pod_improves() {
    let cluster = Cluster::new([
        node("a", json!({}), json!({})),
        node("b", json!({}), json!({})),
    ])
    .with(pod("x", json!({}), requesting("2", "0")), "b");
    let even = || pod("p", json!({}), requesting("1", "2Gi"));
    assert_eq!(cluster.scores(NodeResourcesFit, even()), [75, 50]);
    // On `a` the pod keeps the balance, on `b` neither helps nor harms it.
    let balanced = cluster.scores(NodeResourcesBalancedAllocation, even());
    assert_eq!(balanced, [75, 75]);
    let memory = pod("p", json!({}), requesting("0", "4Gi"));
    let balanced = cluster.scores(NodeResourcesBalancedAllocation, memory);
    assert_eq!(balanced, [62, 87]);
    let nothing = pod("p", json!({}), json!({"containers": [{}]}));
    assert_eq!(
        cluster.scores(NodeResourcesBalancedAllocation, nothing),
        [0, 0]
    );
}

#[test]
fn preferences_are_scored_by_their_weights() {
    let soft = json!([{"key": "k", "effect": "PreferNoSchedule"}]);
    let image = json!([{"names": ["i:latest"], "sizeBytes": 1_000_000_000}]);
    let status = json!({"allocatable": {"pods": "1"}, "images": image});
    let cluster = Cluster::new([
        node(
            "a",
            json!({"disk": "fast"}),
            json!({"spec": {"taints": soft}}),
        ),
        node("b", json!({"disk": "slow"}), json!({"status": status})),
    ]);
    let prefer = |value: &str, weight: i32| {
        let term = json!({"key": "disk", "operator": "In", "values": [value]});
        json!({"weight": weight, "preference": {"matchExpressions": [term]}})
    };
    let spec = json!({
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            prefer("fast", 10), prefer("slow", 5),
        ]}},
        "containers": [{"image": "i"}],
    });
    let picky = || pod("p", json!({}), spec.clone());
    assert_eq!(cluster.scores(NodeAffinity, picky()), [100, 50]);
    assert_eq!(cluster.scores(TaintToleration, picky()), [0, 100]);
    assert_eq!(cluster.scores(ImageLocality, picky()), [0, 46]);
}

fn spread(key: &str, when: &str, more: Value) -> Value {
    let mut constraint = json!({
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "x"}},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        constraint[field] = value.clone();
    }
    json!({"topologySpreadConstraints": [constraint]})
}

#[test]
fn pods_are_spread_over_domains() {
    let zone = |zone: &str| json!({"topology.kubernetes.io/zone": zone});
    let app = || json!({"app": "x"});
    let cluster = Cluster::new([
        node("a", zone("1"), json!({})),
        node("b", zone("1"), json!({})),
        node("c", zone("2"), json!({})),
        node("d", json!({}), json!({})),
    ])
    .with(pod("one", app(), json!({})), "a");
    let key = "topology.kubernetes.io/zone";
    let uneven = "node(s) didn't match pod topology spread constraints";
    let unlabelled =
        "node(s) didn't match pod topology spread constraints (missing required label)";
    let table = [
        (json!({}), vec![uneven, uneven, "fits", unlabelled]),
        (
            json!({"maxSkew": 2}),
            vec!["fits", "fits", "fits", unlabelled],
        ),
        // Three domains are asked for: the fewest is nothing.
        (
            json!({"minDomains": 3}),
            vec![uneven, uneven, "fits", unlabelled],
        ),
        // Pods of another version do not count.
        (
            json!({"matchLabelKeys": ["version"]}),
            vec!["fits", "fits", "fits", unlabelled],
        ),
    ];
    for (more, expected) in table {
        let spec = spread(key, "DoNotSchedule", more.clone());
        let labels = json!({"app": "x", "version": "2"});
        assert_eq!(cluster.filtered(pod("p", labels, spec)), expected, "{more}");
    }
    let soft = spread(key, "ScheduleAnyway", json!({}));
    let scores = cluster.scores(PodTopologySpread::default(), pod("p", app(), soft));
    assert_eq!(scores, [0, 0, 100, 0]);
}

#[test]
fn pods_of_a_service_are_spread_without_being_asked() {
    let cluster = Cluster::new([
        node("a", json!({}), json!({})),
        node("b", json!({}), json!({})),
    ])
    .with(pod("one", json!({"app": "x"}), json!({})), "a")
    .having::<k8s_openapi::api::core::v1::Service>(json!({
        "metadata": {"name": "s", "namespace": "ns"}, "spec": {"selector": {"app": "x"}},
    }));
    let next = pod("p", json!({"app": "x"}), json!({}));
    let scores = cluster.scores(PodTopologySpread::default(), next);
    assert!(scores[0] < scores[1], "{scores:?}");
}

#[test]
fn affinity_selects_namespaces_by_their_labels() {
    let term = |more: Value| {
        let mut term = json!({
            "labelSelector": {"matchLabels": {"app": "x"}},
            "topologyKey": "kubernetes.io/hostname",
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            term[field] = value.clone();
        }
        json!({"affinity": {"podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [term],
        }}})
    };
    let mut elsewhere = pod("x", json!({"app": "x"}), json!({}));
    elsewhere.metadata.namespace = Some("other".to_owned());
    let cluster = Cluster::new([
        node("a", json!({}), json!({})),
        node("b", json!({}), json!({})),
    ])
    .with(elsewhere, "a")
    .having::<Namespace>(json!({"metadata": {"name": "other", "labels": {"team": "red"}}}));
    let apart = "node(s) didn't match pod affinity rules";
    let table = [
        (json!({}), [apart, apart]),
        (json!({"namespaces": ["other"]}), ["fits", apart]),
        (json!({"namespaceSelector": {}}), ["fits", apart]),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "red"}}}),
            ["fits", apart],
        ),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}}),
            [apart, apart],
        ),
    ];
    for (more, expected) in table {
        let spec = term(more.clone());
        assert_eq!(
            cluster.filtered(pod("p", json!({}), spec)),
            expected,
            "{more}"
        );
    }
    // The first of pods that want to be together may be anywhere.
    let first = pod("p", json!({"app": "x"}), term(json!({})));
    assert_eq!(cluster.filtered(first), ["fits", "fits"]);
}

fn with_priority(mut pod: Pod, priority: i32) -> Pod {
    pod.spec.get_or_insert_default().priority = Some(priority);
    pod
}

#[test]
fn the_least_important_pods_make_way() {
    let nodes = || ["a", "b"].map(|name| node(name, json!({}), json!({})));
    let small = |name: &str, priority| {
        let labels = json!({"app": name});
        with_priority(pod(name, labels, requesting("2", "1Gi")), priority)
    };
    let cluster = || {
        Cluster::new(nodes())
            .with(small("a1", 1), "a")
            .with(small("a2", 5), "a")
            .with(small("b1", 2), "b")
            .with(small("b2", 2), "b")
    };
    let preempt = |cluster: Cluster, cpu: &str, priority| {
        let high = with_priority(pod("high", json!({}), requesting(cpu, "1Gi")), priority);
        cluster.preempted(high)
    };
    let chosen = |node: &str, victims: &[&str]| {
        let victims = victims.iter().map(|name| (*name).to_owned()).collect();
        Ok((node.to_owned(), victims))
    };
    assert_eq!(preempt(cluster(), "2", 10), chosen("a", &["a1"]));
    assert_eq!(preempt(cluster(), "4", 10), chosen("b", &["b1", "b2"]));
    let budget = cluster().having::<PodDisruptionBudget>(json!({
        "metadata": {"name": "keep", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": "a1"}}},
        "status": {"disruptionsAllowed": 0},
    }));
    assert_eq!(preempt(budget, "2", 10), chosen("b", &["b2"]));
    assert_eq!(
        preempt(cluster(), "2", 1),
        Err(
            "no new claims to deallocate, preemption: 0/2 nodes are available: \
             2 No preemption victims found for incoming pod."
                .to_owned()
        )
    );
    assert_eq!(
        preempt(cluster(), "5", 10),
        Err(
            "no new claims to deallocate, preemption: 0/2 nodes are available: \
             2 Preemption is not helpful for scheduling."
                .to_owned()
        )
    );
}

#[test]
fn volumes_decide_where_a_pod_can_run() {
    let zone = |zone: &str| json!({"topology.kubernetes.io/zone": zone});
    let claim = |name: &str, class: &str, volume: Value, mode: &str| {
        let bound = if volume.is_null() {
            json!({})
        } else {
            json!({"pv.kubernetes.io/bind-completed": "yes"})
        };
        json!({
            "metadata": {"name": name, "namespace": "ns", "annotations": bound},
            "spec": {
                "storageClassName": class,
                "volumeName": volume,
                "accessModes": [mode],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        })
    };
    let on_b = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]},
    ]}]}});
    let volume = |name: &str, labels: Value, class: &str| {
        json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "storageClassName": class,
                "capacity": {"storage": "2Gi"},
                "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "d", "volumeHandle": name},
            },
        })
    };
    let mut local = volume("local", json!({}), "late");
    local["spec"]["nodeAffinity"] = on_b.clone();
    let late = "WaitForFirstConsumer";
    let user = |name: &str| {
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]);
        pod("p", json!({}), json!({"volumes": volumes}))
    };
    let mut other = user("single");
    other.metadata.name = Some("other".to_owned());
    other.metadata.uid = Some("other".to_owned());
    let cluster = Cluster::new([
        node("a", zone("1"), json!({})),
        node("b", zone("2"), json!({})),
    ])
    .having::<StorageClass>(json!({"metadata": {"name": "now"}, "provisioner": "d"}))
    .having::<StorageClass>(json!({
        "metadata": {"name": "late"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": late,
    }))
    .having::<StorageClass>(json!({
        "metadata": {"name": "made"}, "provisioner": "d", "volumeBindingMode": late,
    }))
    .having::<PersistentVolume>(volume("zonal", zone("1"), "now"))
    .having::<PersistentVolume>(local)
    .having::<PersistentVolumeClaim>(claim("zonal", "now", json!("zonal"), "ReadWriteOnce"))
    .having::<PersistentVolumeClaim>(claim("lost", "now", json!("gone"), "ReadWriteOnce"))
    .having::<PersistentVolumeClaim>(claim("unbound", "now", json!(null), "ReadWriteOnce"))
    .having::<PersistentVolumeClaim>(claim("local", "late", json!(null), "ReadWriteOnce"))
    .having::<PersistentVolumeClaim>(claim("made", "made", json!(null), "ReadWriteOnce"))
    .having::<PersistentVolumeClaim>(claim("single", "made", json!(null), "ReadWriteOncePod"))
    .having::<CSINode>(json!({
        "metadata": {"name": "b"},
        "spec": {"drivers": [{"name": "d", "nodeID": "b", "allocatable": {"count": 0}}]},
    }))
    .with(other, "a");
    let full = "node(s) exceed max volume count";
    let in_use = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access \
                  mode already in-use by another pod";
    let table = [
        ("none", vec!["persistentvolumeclaim \"none\" not found"]),
        (
            "unbound",
            vec!["pod has unbound immediate PersistentVolumeClaims"],
        ),
        ("zonal", vec!["fits", full]),
        ("made", vec!["fits", full]),
        ("single", vec![in_use, in_use]),
        (
            "local",
            vec![
                "node(s) didn't find available persistent volumes to bind",
                "fits",
            ],
        ),
        (
            "lost",
            vec![
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
                full,
            ],
        ),
    ];
    for (name, expected) in table {
        assert_eq!(cluster.filtered(user(name)), expected, "{name}");
    }
}
