//! Runs an election: drives the state machine, sends its requests and publishes the status.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Api;
use kube::api::PostParams;
use parking_lot::Mutex;
use sendo_world::{Moment, Stop, World};
use tokio::sync::watch;

use super::machine::{Machine, Now, Request, Response, Step};
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

/// The last contact with the API server.
#[derive(Debug, Default)]
struct Contact {
    /// When the API server last answered.
    last: Option<Moment>,
    /// The error of the last request, empty if it succeeded.
    error: String,
}

/// The state of an election.
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

/// Leadership of this process, and until when it is certain.
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

    /// The identity of this candidate.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The gate that leader-only writes pass: closed until this candidate leads.
    pub fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// The status of the election, to read and to wait for.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Why this candidate does not know the leader: the API server has not answered it for longer
    /// than a leader may go without renewing its lease (`renew_deadline`), or not at all yet.
    /// `None` as long as it answers.
    pub fn connection_problem(&self) -> Option<String> {
        let contact = self.contact.lock();
        let (lease, error) = (&self.options.name, contact.error.as_str());
        let Some(last) = contact.last else {
            return Some(match error {
                "" => format!("the lease {lease} has not been read yet"),
                error => format!("the lease {lease} could not be read: {error}"),
            });
        };
        let since = self.world.clock().now().since(last);
        let is_cut_off = since > self.options.renew_deadline;
        is_cut_off.then(|| {
            let since = since.as_secs_f64();
            format!("the lease {lease} was last reached {since:.1} s ago: {error}")
        })
    }

    fn record(&self, response: &Response) {
        let mut contact = self.contact.lock();
        match response {
            Response::Failed(error) => contact.error.clone_from(error),
            _ => {
                contact.last = Some(self.world.clock().now());
                contact.error.clear();
            }
        }
    }

    /// Whether leadership has run out and this candidate has not noticed it: what
    /// it runs on is blocked.
    #[cfg(feature = "args")]
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
                term.publish(&machine);
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
        let response = self
            .world
            .clock()
            .timeout(limit, send_request(leases, &self.options.name, &request));
        let response = response.await.unwrap_or_else(|| {
            let limit = limit.as_secs_f64();
            Response::Failed(format!(
                "no response from the API server within {limit:.1} s"
            ))
        });
        self.record(&response);
        if let Response::Failed(error) = &response {
            tracing::warn!(lease = self.options.name, %error, "election request failed");
        }
        machine.answered(&request, sent, response, self.now())
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

async fn send_request(leases: &Api<Lease>, name: &str, request: &Request) -> Response {
    let post = PostParams::default();
    let outcome = match request {
        Request::Get => leases.get(name).await,
        Request::Create(lease) => leases.create(&post, lease).await,
        Request::Update(lease) => leases.replace(name, &post, lease).await,
    };
    match outcome {
        Ok(lease) => Response::Lease(Box::new(lease)),
        Err(kube::Error::Api(status)) => match status.code {
            // What is missing for a creation is the namespace.
            404 if !matches!(request, Request::Create(_)) => Response::Missing,
            409 => Response::Conflict,
            _ => Response::Failed(status.message.clone()),
        },
        Err(error) => Response::Failed(crate::Error::from(error).to_string()),
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
    fn publish(&mut self, machine: &Machine) {
        let Some(valid_until) = machine.leads_until() else {
            return self.publish_leader(machine);
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

    fn publish_leader(&self, machine: &Machine) {
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
