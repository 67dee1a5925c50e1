//! The pods bound to this node: takes them up, reports on them, lets them go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sendo::cache::{FieldSelector, Selection};
use sendo::handler::map;
use sendo::source::kind;
use sendo::{
    Action, Context, Controller, Elected, Event, EventType::*, ObjectExt, Reconcile, Result,
    Timestamp, Uid, predicate,
};

use crate::addresses::{self, PodAddresses};
use crate::pod::Pod;
use crate::simulation::{self, History};
use crate::status::{self, Place};
use crate::{NodeOptions, Pace};

/// The controller of the pods that are bound to this node, and of no others.
pub(crate) fn controller(options: &NodeOptions, pace: Pace) -> Controller {
    let agent = Arc::new(Agent {
        number: options.number,
        pace,
        memory: Mutex::new(Memory {
            histories: BTreeMap::new(),
            addresses: PodAddresses::new(options.number),
        }),
    });
    let mine = Selection::fields(FieldSelector::equal("spec.nodeName", &options.name));
    let forgets = agent.clone();
    Controller::new::<Pod>()
        .named("kubelet")
        .selecting(mine.clone())
        .watches(
            kind::<Pod>().selecting(mine).when(predicate::deleted()),
            map(move |gone: Event<Pod>, _| {
                forgets.forget(&gone.object().uid());
                None
            }),
        )
        .workers(8)
        .elected(Elected::Everywhere)
        .reconcile(Shared(agent))
}

/// One node's agent, and what it remembers of its pods.
struct Agent {
    number: u8,
    pace: Pace,
    memory: Mutex<Memory>,
}

struct Memory {
    /// More exact than what the API keeps, which is whole seconds.
    histories: BTreeMap<Uid, History>,
    addresses: PodAddresses,
}

struct Shared(Arc<Agent>);

impl Reconcile<Pod> for Shared {
    async fn reconcile(&self, pod: Arc<Pod>, cx: Context) -> Result<Action> {
        if simulation::is_finished(&pod) {
            self.0.forget(&pod.uid());
            return Ok(Action::done());
        }
        let now = cx.now();
        let (place, new) = self.0.place(&pod, now);
        let snapshot = simulation::at(&pod, &place.history, self.0.pace, now);
        let status = status::of(&pod, &snapshot, place, now);
        if !pod.is_being_deleted() {
            new.iter()
                .for_each(|container| tell_of_start(container, &cx));
        }
        cx.client().status(&*pod, |now| *now = status).await?;
        if pod.is_being_deleted() && snapshot.ended() {
            // The containers are gone: now the pod may go, and no other of its name.
            match cx.client().delete(&*pod).grace_period(0).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => return Ok(Action::done()),
            }
        }
        Ok(match snapshot.next {
            Some(next) => Action::after(until(next, now)),
            None => Action::done(),
        })
    }
}

fn until(moment: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(moment.duration_since(now)).unwrap_or_default()
}

fn tell_of_start(container: &str, cx: &Context) {
    cx.event(Normal, "Created", format!("Container created: {container}"));
    cx.event(Normal, "Started", format!("Container started: {container}"));
}

/// The names of the containers that a pod begins with, in the order they start.
fn own_containers(pod: &Pod) -> Vec<String> {
    let spec = pod.spec.iter();
    let containers = spec.flat_map(|spec| {
        let init = spec.init_containers.iter().flatten();
        init.chain(&spec.containers)
    });
    containers.map(|container| container.name.clone()).collect()
}

impl Agent {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the pod is and since when, and the containers that this node has just taken up.
    fn place(&self, pod: &Pod, now: Timestamp) -> (Place, Vec<String>) {
        let uid = pod.uid();
        let mut memory = self.memory();
        // What an earlier life of this agent reported still holds.
        let reported = pod
            .status
            .as_ref()
            .and_then(|status| status.pod_ip.as_deref());
        if let Some(address) = reported.and_then(|ip| ip.parse().ok()) {
            memory.addresses.keep(&uid, address);
        }
        let reported = || {
            Some(History {
                taken_up: simulation::taken_up(pod)?,
                joined: simulation::joined(pod, self.pace),
                asked_to_end: simulation::asked_to_end(pod),
            })
        };
        let known = memory.histories.get(&uid).cloned().or_else(reported);
        let mut new = match known {
            None => own_containers(pod),
            Some(_) => Vec::new(),
        };
        let mut history = known.unwrap_or_else(|| History {
            taken_up: now,
            joined: BTreeMap::new(),
            asked_to_end: None,
        });
        for name in simulation::ephemeral(pod) {
            history.joined.entry(name.to_owned()).or_insert_with(|| {
                new.push(name.to_owned());
                now
            });
        }
        if pod.is_being_deleted() {
            history.asked_to_end.get_or_insert(now);
        }
        memory.histories.insert(uid.clone(), history.clone());
        let host = addresses::host(self.number);
        let shares_host = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
        let address = match shares_host {
            true => Some(host),
            false => memory.addresses.of(&uid),
        };
        let place = Place {
            host,
            pod: address,
            history,
        };
        (place, new)
    }

    fn forget(&self, pod: &Uid) {
        let mut memory = self.memory();
        memory.histories.remove(pod);
        memory.addresses.release(pod);
    }
}
