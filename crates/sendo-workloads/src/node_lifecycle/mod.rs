//! Watches over nodes: which are reachable, which get pods, and which lose them.
//!
//! A node whose agent neither renews its lease nor reports for a while is said to be unreachable.
//! `taints` keeps pods away from nodes by what these report; `zones` says how fast pods may leave
//! nodes that are not ready, which the controller of evictions then does.
//!
//! Kubernetes looks at all nodes every five seconds. Here each node has a timer of its own, until
//! its grace is over, and only those that are not ready are looked at every five seconds: leases
//! that are renewed are noted, and wake nobody.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/nodelifecycle/node_lifecycle_controller.go`: `monitorNodeHealth`,
//!   `tryUpdateNodeHealth`, `processTaintBaseEviction`, `processPod`, `reconcileNodeLabels`
//! - `pkg/controller/nodelifecycle/metrics.go`
//! - `pkg/controller/util/node/controller_utils.go`: `MarkPodsNotReady`, `RecordNodeEvent`,
//!   `RecordNodeStatusChange`
//! - `cmd/kube-controller-manager/app/options/nodelifecyclecontroller.go`

mod taints;
mod zones;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, ObjectReference, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use parking_lot::Mutex;
use sendo::cache::Selection;
use sendo::client::Patch;
use sendo::handler::map_object;
use sendo::metrics::{Counter, Family, Gauge};
use sendo::source::kind;
use sendo::{
    Action, Context, Controller, EventSeverity::*, Moment, ObjectExt, ObjectKey, Reader,
    ReconcileKey, Result, Timestamp, Uid, predicate,
};
use serde_json::json;

use self::taints::Eviction;
use self::zones::{Change, Count, Zones, zone_of};
use crate::pods::{self, BY_NODE, Pod, node_of};

/// How long a node may say nothing.
const GRACE: Duration = Duration::from_secs(50);
/// How long a new node may say nothing.
const STARTUP_GRACE: Duration = Duration::from_secs(60);
/// How often a node that is not ready is looked at.
const PERIOD: Duration = Duration::from_secs(5);
/// The namespace of the leases of nodes.
const LEASES: &str = "kube-node-lease";
/// Nodes with this label do not count for the state of their zone.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// What an agent reports of its node, which nobody knows once it is silent.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Labels that old programs read, and those that they follow.
const FOLLOWING_LABELS: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// What is reconciled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Node(String),
    /// A pod that was bound to a node.
    Pod(ObjectKey),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Node(name) => write!(f, "node {name}"),
            Key::Pod(key) => write!(f, "pod {key}"),
        }
    }
}

/// The controller of nodes.
pub fn controller() -> Controller {
    let nodes = Nodes::default();
    let (renewals, figures) = (nodes.renewals.clone(), nodes.figures.clone());
    let note_renewal = move |lease: &Lease, cx: &Reader| {
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
        let mut renewals = renewals.lock();
        let known = renewals.get(lease.name());
        // A lease that was read again was not renewed.
        if known.is_none_or(|(time, _)| *time < renewed) {
            renewals.insert(lease.name().to_owned(), (renewed, cx.clock().now()));
        }
        Vec::<Key>::new()
    };
    let bound = predicate::changed(|old: &Pod, new| node_of(old) != node_of(new));
    let of_pod = |pod: &Pod, _: &Reader| {
        let is_bound = node_of(pod).is_some();
        is_bound.then(|| Key::Pod(pod.key()))
    };
    Controller::keyed::<Key>("node-lifecycle-controller")
        .events_as("node-controller")
        .watches(
            kind::<Node>().when(predicate::changed(is_news)),
            map_object(|node: &Node, _: &_| [Key::Node(node.name().to_owned())]),
        )
        .watches(
            kind::<Lease>().selecting(Selection::in_namespace(LEASES)),
            map_object(note_renewal),
        )
        .watches(kind::<Pod>().when(bound), map_object(of_pod))
        .index(&BY_NODE)
        .metric(
            "node_collector_zone_health",
            "Gauge measuring percentage of healthy nodes per zone",
            figures.health,
        )
        .metric(
            "node_collector_zone_size",
            "Gauge measuring number of registered Nodes per zones",
            figures.size,
        )
        .metric(
            "node_collector_unhealthy_nodes_in_zone",
            "Gauge measuring number of not Ready Nodes per zones",
            figures.unhealthy,
        )
        .metric(
            "node_collector_evictions_total",
            "Number of Node evictions that happened since current instance of NodeController started",
            figures.evictions,
        )
        .reconcile(nodes)
}

/// Whether a change of a node matters here: most are reports that it is as before.
fn is_news(old: &Node, new: &Node) -> bool {
    let ready = |node: &Node| ready(node).map(|ready| ready.status.clone());
    taints::wanted(old) != taints::wanted(new)
        || taints::taints(old) != taints::taints(new)
        || ready(old) != ready(new)
        || old.metadata.labels != new.metadata.labels
        || old.uid() != new.uid()
}

/// What is known of a node.
#[derive(Clone, Debug)]
struct Health {
    uid: Uid,
    zone: String,
    /// Whether it counts for the state of its zone.
    counts: bool,
    /// When it was last seen to say something.
    heard: Moment,
    /// The time of its last report, as it says.
    reported: Option<Time>,
    /// The status of its condition `Ready`, if it has one.
    ready: Option<String>,
    /// Its pods are to be marked.
    owes_marks: bool,
}

/// The time in the last renewal of each node's lease, and when that was seen. The times of
/// machines differ, so only the latter is compared.
type Renewals = Arc<Mutex<BTreeMap<String, (Option<MicroTime>, Moment)>>>;

#[derive(Default)]
struct Nodes {
    renewals: Renewals,
    state: Mutex<Known>,
    figures: Figures,
}

#[derive(Default)]
struct Known {
    nodes: BTreeMap<String, Health>,
    zones: Zones,
}

type Labels = Vec<(&'static str, String)>;

#[derive(Clone, Default)]
struct Figures {
    health: Family<Labels, Gauge>,
    size: Family<Labels, Gauge>,
    unhealthy: Family<Labels, Gauge>,
    evictions: Family<Labels, Counter>,
}

fn labels_of(zone: &str) -> Labels {
    vec![("zone", zone.replace('\0', ""))]
}

impl ReconcileKey<Key> for Nodes {
    async fn reconcile(&self, key: Key, cx: Context) -> Result<Action> {
        match key {
            Key::Pod(key) => self.sync_pod(&key, &cx).await,
            Key::Node(name) => match cx.get::<Node>(ObjectKey::cluster(&name)) {
                Some(node) => self.sync_node(node, &cx).await,
                None => {
                    self.forget(&name, &cx);
                    Ok(Action::done())
                }
            },
        }
    }
}

impl Nodes {
    async fn sync_node(&self, mut node: Arc<Node>, cx: &Context) -> Result<Action> {
        let now = cx.clock().now();
        let is_new = self.observe(&node, now);
        if is_new {
            let name = node.name();
            let message = format!("Registered Node {name} in Controller");
            record(name, &node.uid(), "RegisteredNode", message, cx);
        }
        follow_labels(&node, cx).await?;

        let silent = now.since(self.heard(&node));
        let grace = match ready(&node) {
            Some(_) => GRACE,
            None => STARTUP_GRACE,
        };
        if silent > grace {
            node = mark_unknown(node, cx).await?;
        }
        let again = grace.saturating_sub(silent) + Duration::from_millis(1);
        self.note_ready(&node, cx);
        keep_pods_away(&node, cx).await?;

        let Some(status) = ready(&node).map(|ready| ready.status.clone()) else {
            return Ok(Action::after(again));
        };
        self.mark_pods(&node, cx).await?;
        let eviction = Eviction::by_ready(&status);
        self.evict(&node, eviction, cx).await?;
        Ok(Action::after(match eviction {
            Eviction::None => again,
            _ => PERIOD,
        }))
    }

    /// Takes in what the node says. Returns whether it was not known.
    fn observe(&self, node: &Node, now: Moment) -> bool {
        let reported = ready(node).and_then(|ready| ready.last_heartbeat_time.clone());
        let mut state = self.state.lock();
        let known = state.nodes.get_mut(node.name());
        let (zone, counts) = (zone_of(node), node.label(EXCLUDED).is_none());
        match known.filter(|known| known.uid == node.uid()) {
            Some(known) => {
                if known.reported != reported {
                    known.reported = reported;
                    known.heard = now;
                }
                (known.zone, known.counts) = (zone, counts);
                false
            }
            None => {
                let health = Health {
                    uid: node.uid(),
                    zone,
                    counts,
                    heard: now,
                    reported,
                    ready: None,
                    owes_marks: false,
                };
                state.nodes.insert(node.name().to_owned(), health);
                true
            }
        }
    }

    /// When the node was last seen to say something, by its status or its lease.
    fn heard(&self, node: &Node) -> Moment {
        let renewals = self.renewals.lock();
        let renewed = renewals.get(node.name()).map(|(_, seen)| *seen);
        let state = self.state.lock();
        let known = state.nodes.get(node.name());
        let heard = known.map_or(Moment::START, |known| known.heard);
        renewed.map_or(heard, |renewed| renewed.max(heard))
    }

    /// Takes in whether the node is ready, and what that makes of its zone.
    fn note_ready(&self, node: &Node, cx: &Context) {
        let now = cx.clock().now();
        let status = ready(node).map(|ready| ready.status.clone());
        let mut state = self.state.lock();
        if let Some(known) = state.nodes.get_mut(node.name()) {
            let was_ready = known.ready.as_deref() == Some("True");
            if was_ready && status.as_deref() != Some("True") {
                known.owes_marks = true;
                let name = node.name();
                let message = format!("Node {name} status is now: NodeNotReady");
                record(name, &known.uid, "NodeNotReady", message, cx);
            }
            known.ready = status;
        }
        self.count(&mut state, now);
    }

    fn count(&self, state: &mut Known, now: Moment) {
        let mut counts: BTreeMap<String, Count> = BTreeMap::new();
        for node in state.nodes.values().filter(|node| node.counts) {
            let count = counts.entry(node.zone.clone()).or_default();
            match node.ready.as_deref() {
                Some("True") => count.ready += 1,
                _ => count.unready += 1,
            }
        }
        for (zone, count) in &counts {
            let labels = labels_of(zone);
            let (size, unready) = (count.ready + count.unready, count.unready);
            self.figures.size.get_or_create(&labels).set(size as i64);
            let healthy = 100 * count.ready / size;
            self.figures
                .health
                .get_or_create(&labels)
                .set(healthy as i64);
            let unhealthy = self.figures.unhealthy.get_or_create(&labels);
            unhealthy.set(unready as i64);
        }
        if state.zones.count(&counts, now) == Change::Found {
            for node in state.nodes.values_mut() {
                node.heard = now;
            }
        }
    }

    fn forget(&self, name: &str, cx: &Context) {
        self.renewals.lock().remove(name);
        let mut state = self.state.lock();
        let Some(gone) = state.nodes.remove(name) else {
            return;
        };
        let message = format!("Removing Node {name} from Controller");
        record(name, &gone.uid, "RemovingNode", message, cx);
        self.count(&mut state, cx.clock().now());
    }

    /// Says of the node's pods that they are not ready, once it is not.
    async fn mark_pods(&self, node: &Node, cx: &Context) -> Result<()> {
        let name = node.name().to_owned();
        let owes = {
            let state = self.state.lock();
            state.nodes.get(&name).is_some_and(|known| known.owes_marks)
        };
        if !owes {
            return Ok(());
        }
        for pod in cx.list::<Pod>().by(&BY_NODE, name.clone()) {
            mark_not_ready(&pod, cx).await?;
        }
        if let Some(known) = self.state.lock().nodes.get_mut(&name) {
            known.owes_marks = false;
        }
        Ok(())
    }

    /// A pod that was bound to a node that is not ready is not ready.
    async fn sync_pod(&self, key: &ObjectKey, cx: &Context) -> Result<Action> {
        let Some(pod) = cx.get::<Pod>(key) else {
            return Ok(Action::done());
        };
        let is_lost = {
            let state = self.state.lock();
            let known = node_of(&pod).and_then(|node| state.nodes.get(node));
            let ready = known.and_then(|known| known.ready.as_deref());
            ready.is_some_and(|status| status != "True")
        };
        if is_lost {
            mark_not_ready(&pod, cx).await?;
        }
        Ok(Action::done())
    }

    /// Has the pods leave the node that do not tolerate what it is, if it is its turn.
    async fn evict(&self, node: &Arc<Node>, eviction: Eviction, cx: &Context) -> Result<()> {
        let zone = zone_of(node);
        let is_disrupted = self.state.lock().zones.are_disrupted();
        let wanted = if is_disrupted {
            Eviction::None
        } else {
            eviction
        };
        if wanted.retainted(node, cx.now()).is_none() {
            return Ok(());
        }
        // A node that has one of the taints already does not wait for the other.
        let is_first = wanted != Eviction::None && !Eviction::is_under_way(node);
        if is_first {
            let mut state = self.state.lock();
            if !state.zones.may_evict(&zone, cx.clock().now()) {
                return Ok(());
            }
        }
        retaint(node, |node, now| wanted.retainted(node, now), cx).await?;
        if is_first {
            let evictions = &self.figures.evictions;
            evictions.get_or_create(&labels_of(&zone)).inc();
        }
        Ok(())
    }
}

fn ready(node: &Node) -> Option<&NodeCondition> {
    let mut conditions = taints::conditions(node).iter();
    conditions.find(|condition| condition.type_ == "Ready")
}

/// Says of a node that nobody knows how it is. Returns it as it is then.
async fn mark_unknown(node: Arc<Node>, cx: &Context) -> Result<Arc<Node>> {
    let now = Time(cx.now());
    let mut marked = (*node).clone();
    let conditions = marked
        .status
        .get_or_insert_default()
        .conditions
        .get_or_insert_default();
    for type_ in REPORTED {
        let known = conditions.iter_mut().find(|known| known.type_ == type_);
        match known {
            Some(known) if known.status == "Unknown" => {}
            Some(known) => {
                known.status = "Unknown".to_owned();
                known.reason = Some("NodeStatusUnknown".to_owned());
                known.message = Some("Kubelet stopped posting node status.".to_owned());
                known.last_transition_time = Some(now.clone());
            }
            None => conditions.push(NodeCondition {
                type_: type_.to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(now.clone()),
            }),
        }
    }
    let conditions = conditions.clone();
    let written = cx.client().status(&node, |status| {
        status.conditions = Some(conditions);
    });
    written.await?;
    Ok(Arc::new(marked))
}

/// Taints the node so that no new pods come to it.
async fn keep_pods_away(node: &Arc<Node>, cx: &Context) -> Result<()> {
    match taints::retainted(node, cx.now()) {
        Some(_) => retaint(node, taints::retainted, cx).await,
        None => Ok(()),
    }
}

/// Changes the taints of a node as `change` says, which returns `None` if they stay.
async fn retaint(
    node: &Arc<Node>,
    change: impl Fn(&Node, Timestamp) -> Option<Vec<Taint>>,
    cx: &Context,
) -> Result<()> {
    let now = cx.now();
    let modify = |node: &mut Node| {
        if let Some(taints) = change(node, now) {
            node.spec.get_or_insert_default().taints = Some(taints).filter(|t| !t.is_empty());
        }
    };
    match cx.client().modify(node, modify).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Sets the labels that old programs read to what the new ones say.
async fn follow_labels(node: &Arc<Node>, cx: &Context) -> Result<()> {
    let stale = FOLLOWING_LABELS.iter().filter_map(|(leading, following)| {
        let value = node.label(leading)?;
        (node.label(following) != Some(value)).then_some((*following, value))
    });
    let stale: BTreeMap<&str, &str> = stale.collect();
    if stale.is_empty() {
        return Ok(());
    }
    let patch = Patch::Merge(json!({"metadata": {"labels": stale}}));
    match cx.client().patch(&**node, patch).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

async fn mark_not_ready(pod: &Arc<Pod>, cx: &Context) -> Result<()> {
    let ready = pods::condition(pod, "Ready");
    if ready.is_none_or(|ready| ready.status == "False") {
        return Ok(());
    }
    let condition = json!({"type": "Ready", "status": "False",
        "lastTransitionTime": Time(cx.now())});
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    match cx.client().patch_status(&**pod, patch).await {
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => {
            cx.event_on(&**pod, Warning, "NodeNotReady", "Node is not ready");
            Ok(())
        }
    }
}

fn record(name: &str, uid: &Uid, reason: &str, message: String, cx: &Context) {
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.as_str().to_owned()),
        ..ObjectReference::default()
    };
    cx.recorder().event(&about, Normal, reason, message);
}
