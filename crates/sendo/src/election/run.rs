//! The election as it runs: the state machine, its requests, and who is told.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Api;
use kube::api::PostParams;
use parking_lot::Mutex;
use sendo_world::{Moment, Stop, World};
use tokio::sync::watch;

use super::machine::{Answer, Machine, Now, Request, Step};
use super::{ElectionOptions, Gate, InvalidOptions};

/// How far candidates spread their attempts, in retry periods.
const JITTER: f64 = 1.2;
/// How often to try to give the lease back when others keep changing it.
const RELEASE_ATTEMPTS: u32 = 5;

/// One candidate. Clones are the same candidate.
#[derive(Clone, Debug)]
pub struct Election {
    options: Arc<ElectionOptions>,
    identity: Arc<str>,
    world: World,
    gate: Gate,
    status: Arc<watch::Sender<Status>>,
    contact: Arc<Mutex<Contact>>,
}

/// How the API server has answered this candidate.
#[derive(Debug, Default)]
struct Contact {
    /// When it last did.
    last: Option<Moment>,
    /// Why it has not since.
    trouble: String,
}

/// Where an election stands.
#[derive(Clone, Debug)]
pub enum Status {
    /// Somebody else leads, or nobody does yet.
    Waiting {
        /// The identity of the leader, if one is known.
        leader: Option<String>,
    },
    /// This process leads.
    Leading(Leadership),
    /// The election is over: leadership was lost or given back.
    Over,
}

/// That this process leads, and until when that is sure.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// Cancelled when leadership ends, for whatever reason: the signal for
    /// leader-only work to stop.
    pub lost: Stop,
    /// Open as long as leadership is sure.
    pub gate: Gate,
    /// The Lease, for Events about it.
    pub lease: ObjectReference,
    /// Up to when it was sure at the time of this value; renewals move the gate's end on.
    pub valid_until: Moment,
}

/// Leadership has ended against this process's will.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("leadership of {lease} lost: {cause}")]
pub struct Lost {
    /// The lease, as `namespace/name`.
    pub lease: String,
    /// What happened.
    pub cause: String,
}

impl Election {
    /// A candidate that does not compete yet.
    pub fn new(world: &World, options: ElectionOptions) -> Result<Self, InvalidOptions> {
        options.check()?;
        let lease = format!("{}/{}", options.namespace, options.name);
        let (status, _) = watch::channel(Status::Waiting { leader: None });
        Ok(Election {
            identity: options.identity(world).into(),
            gate: Gate::closed(lease, world.clock().clone()),
            world: world.clone(),
            options: Arc::new(options),
            status: Arc::new(status),
            contact: Arc::default(),
        })
    }

    /// Who this candidate is.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The gate that leader-only writes pass: closed until this candidate leads.
    pub fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// Where the election stands, to look at and to wait for.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Why this candidate cannot tell who leads: the API server has not answered
    /// it for longer than a leader may go without renewing its lease
    /// (`renew_deadline`), or not at all yet. `None` as long as it answers.
    pub fn trouble(&self) -> Option<String> {
        let contact = self.contact.lock();
        let (lease, trouble) = (&self.options.name, contact.trouble.as_str());
        let Some(last) = contact.last else {
            return Some(match trouble {
                "" => format!("the lease {lease} has not been read yet"),
                trouble => format!("the lease {lease} could not be read: {trouble}"),
            });
        };
        let since = self.world.clock().now().since(last);
        let is_cut_off = since > self.options.renew_deadline;
        is_cut_off.then(|| {
            let since = since.as_secs_f64();
            format!("the lease {lease} was last reached {since:.1} s ago: {trouble}")
        })
    }

    fn heard(&self, answer: &Answer) {
        let mut contact = self.contact.lock();
        match answer {
            Answer::Failed(trouble) => contact.trouble.clone_from(trouble),
            _ => {
                contact.last = Some(self.world.clock().now());
                contact.trouble.clear();
            }
        }
    }

    /// Whether leadership has run out and this candidate has not noticed it: what
    /// it runs on is blocked.
    pub(crate) fn is_overdue(&self) -> bool {
        let leads = matches!(*self.status.borrow(), Status::Leading(_));
        leads && self.gate.check().is_err()
    }

    /// Waits until this candidate leads; `None` if the election ends before.
    pub async fn acquired(&self) -> Option<Leadership> {
        let mut status = self.status();
        let settled = |status: &Status| !matches!(status, Status::Waiting { .. });
        let settled = status.wait_for(settled).await.ok()?;
        match &*settled {
            Status::Leading(leadership) => Some(leadership.clone()),
            _ => None,
        }
    }

    /// Competes for the lease and renews it, until leadership is lost, which is
    /// the error, or `release` is cancelled.
    ///
    /// Cancel `release` when leader-only work has ended, not before: the lease is
    /// renewed until then, and given back after, so that another can lead within
    /// seconds. If a write was cancelled on its way, the lease is kept until the
    /// write can no longer take effect, which is `renew_deadline` at most. If the future is dropped, leadership ends at once, and others
    /// wait for the lease to expire.
    pub async fn run(&self, client: kube::Client, release: &Stop) -> Result<(), Lost> {
        let mut term = Term {
            election: self,
            leadership: None,
        };
        let mut machine = Machine::new(&self.options, &self.identity);
        let leases = Api::namespaced(client, &self.options.namespace);
        loop {
            let mut step = machine.begin(self.now());
            while let Step::Send(request) = step {
                step = self.send(&leases, &mut machine, request).await;
                term.tell(&machine);
            }
            if let Step::Lost(cause) = step {
                let lease = format!("{}/{}", self.options.namespace, self.options.name);
                tracing::error!(%lease, %cause, "leadership lost");
                return Err(Lost { lease, cause });
            }
            tokio::select! {
                biased;
                () = release.cancelled() => break,
                () = self.rest(&machine) => {}
            }
        }
        drop(term);
        // A write whose sender was cancelled may still be on its way: nobody else
        // may lead before it has arrived or cannot any more.
        self.world.clock().sleep_until(self.gate.settled_at()).await;
        self.give_back(&leases, &mut machine).await;
        Ok(())
    }

    async fn send(&self, leases: &Api<Lease>, machine: &mut Machine, request: Request) -> Step {
        let sent = self.world.clock().now();
        // Half the deadline, so that a request that hangs leaves time for another.
        let mut limit = self.options.renew_deadline / 2;
        if let Some(until) = machine.leads_until() {
            limit = limit.min(until - sent);
        }
        let answer = self
            .world
            .clock()
            .timeout(limit, ask(leases, &self.options.name, &request));
        let answer = answer.await.unwrap_or_else(|| {
            let limit = limit.as_secs_f64();
            Answer::Failed(format!("no answer from the API server within {limit:.1} s"))
        });
        self.heard(&answer);
        if let Answer::Failed(trouble) = &answer {
            tracing::warn!(lease = self.options.name, %trouble, "election request failed");
        }
        machine.answered(&request, sent, answer, self.now())
    }

    async fn rest(&self, machine: &Machine) {
        let clock = self.world.clock();
        let period = self.options.retry_period;
        match machine.leads_until() {
            Some(until) => clock.sleep_until(until.min(clock.now() + period)).await,
            None => {
                let spread = self.world.random().fraction() * JITTER;
                clock.sleep(period.mul_f64(1.0 + spread)).await;
            }
        }
    }

    async fn give_back(&self, leases: &Api<Lease>, machine: &mut Machine) {
        let mut step = machine.release();
        for _ in 0..RELEASE_ATTEMPTS * 2 {
            let Step::Send(request) = step else { break };
            step = self.send(leases, machine, request).await;
        }
        match step {
            Step::Released => tracing::info!(lease = self.options.name, "lease given back"),
            _ => tracing::warn!(
                lease = self.options.name,
                "lease not given back: others wait until it expires"
            ),
        }
    }

    fn now(&self) -> Now {
        let clock = self.world.clock();
        let moment = clock.now();
        let wall = clock.wall_at(moment);
        Now { moment, wall }
    }
}

async fn ask(leases: &Api<Lease>, name: &str, request: &Request) -> Answer {
    let post = PostParams::default();
    let outcome = match request {
        Request::Get => leases.get(name).await,
        Request::Create(lease) => leases.create(&post, lease).await,
        Request::Update(lease) => leases.replace(name, &post, lease).await,
    };
    match outcome {
        Ok(lease) => Answer::Lease(Box::new(lease)),
        Err(kube::Error::Api(status)) => match status.code {
            // What is missing for a creation is the namespace.
            404 if !matches!(request, Request::Create(_)) => Answer::Missing,
            409 => Answer::Conflict,
            _ => Answer::Failed(status.message.clone()),
        },
        Err(error) => Answer::Failed(crate::Error::from(error).to_string()),
    }
}

/// The time from the first sign of leadership to its end. Dropping it ends
/// leadership here, so that an election that is cancelled or panics leaves no
/// work behind that believes in it.
struct Term<'a> {
    election: &'a Election,
    leadership: Option<Leadership>,
}

impl Term<'_> {
    fn tell(&mut self, machine: &Machine) {
        let Some(valid_until) = machine.leads_until() else {
            return self.tell_leader(machine);
        };
        let election = self.election;
        election.gate.set(Some(valid_until));
        if self.leadership.is_some() {
            return;
        }
        let leadership = Leadership {
            lost: Stop::new(),
            gate: election.gate.clone(),
            lease: machine.lease().unwrap_or_default(),
            valid_until,
        };
        tracing::info!(lease = election.options.name, identity = %election.identity, "leading");
        if let Some(metrics) = &election.options.metrics {
            metrics.set_leading(true);
        }
        self.leadership = Some(leadership.clone());
        election.status.send_replace(Status::Leading(leadership));
    }

    fn tell_leader(&self, machine: &Machine) {
        let holder = machine.holder();
        self.election
            .status
            .send_if_modified(|status| match status {
                Status::Waiting { leader } if leader.as_deref() != holder => {
                    if let Some(holder) = holder {
                        tracing::info!(
                            lease = self.election.options.name,
                            leader = holder,
                            "another leads"
                        );
                    }
                    *leader = holder.map(str::to_owned);
                    true
                }
                _ => false,
            });
    }
}

impl Drop for Term<'_> {
    fn drop(&mut self) {
        self.election.gate.set(None);
        if let Some(leadership) = &self.leadership {
            leadership.lost.cancel();
            if let Some(metrics) = &self.election.options.metrics {
                metrics.set_leading(false);
            }
        }
        self.election.status.send_replace(Status::Over);
    }
}
