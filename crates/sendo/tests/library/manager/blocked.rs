//! Code that never waits, so that nothing can drop it, in real time: a runtime of
//! several threads goes on beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use sendo::election::Lost;
use sendo::manager::DidNotStop;
use sendo::{Action, Config, Context, Controller, Manager};

use super::election::{elected, holder, steal};
use super::{Place, SECOND};

/// A loop that holds its thread until it is let go.
#[derive(Clone, Default)]
struct Blockade(Arc<[AtomicBool; 2]>);

impl Blockade {
    fn hold(&self) {
        self.0[0].store(true, Ordering::Relaxed);
        while !self.0[1].load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    async fn holds(&self) {
        while !self.0[0].load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
    }

    fn let_go(&self) {
        self.0[1].store(true, Ordering::Relaxed);
    }

    fn manager(&self) -> Manager {
        let blockade = self.clone();
        let reconcile = move |_: Arc<ConfigMap>, _: Context| {
            let blockade = blockade.clone();
            async move {
                blockade.hold();
                Ok(Action::done())
            }
        };
        let controller = Controller::new::<ConfigMap>().reconcile(reconcile);
        Manager::new("program").controller(controller)
    }
}

/// A leader whose lease runs out soon.
fn config(place: &Place) -> Config {
    let mut config = elected(place, "one");
    let election = config.election.as_mut().unwrap();
    election.lease_duration = 4 * SECOND;
    election.renew_deadline = 3 * SECOND;
    election.retry_period = SECOND / 5;
    config
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_cannot_be_cut_off_is_named_and_its_lease_is_kept() {
    let place = Place::real().await;
    place.create("a").await;
    let blockade = Blockade::default();
    let mut config = config(&place);
    config.shutdown_timeout = SECOND / 5;
    let running = blockade.manager().start(config).unwrap();
    blockade.holds().await;
    let error = running.stop().await.unwrap_err();
    let late = error.downcast_ref::<DidNotStop>().unwrap();
    assert_eq!(late.goes_on, ["`configmap` (reconciling default/a)"]);
    assert_eq!(late.cut_off, Vec::<String>::new());
    assert!(error.to_string().contains("never waits"), "{error}");
    assert_eq!(holder(&place, "program").await.as_deref(), Some("one"));
    blockade.let_go();
    place.end([]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_that_cannot_be_cut_off_ends_the_program_without_delay() {
    let place = Place::real().await;
    place.create("a").await;
    let blockade = Blockade::default();
    let running = blockade.manager().start(config(&place)).unwrap();
    blockade.holds().await;
    steal(&place).await;
    let before = place.world.clock().now();
    let error = running.ended().await.unwrap_err();
    let took = place.world.clock().now() - before;
    assert!(error.downcast_ref::<Lost>().is_some(), "{error}");
    assert!(
        took < 15 * SECOND,
        "{took:?}: others had their 30 s to stop"
    );
    blockade.let_go();
    place.end([]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reconcile_that_blocks_its_thread_is_seen_by_healthz() {
    let place = Place::real().await;
    place.create("a").await;
    let blockade = Blockade::default();
    let mut config = place.config("program");
    config.world = config.world.with_clock_rate(500.0);
    config.shutdown_timeout = 500 * 30 * SECOND;
    let running = blockade.manager().start(config).unwrap();
    blockade.holds().await;
    let lines = loop {
        let report = running.probes().live.run(&place.world, &[]).await;
        if !report.passed() {
            break report.lines();
        }
        tokio::task::yield_now().await;
    };
    assert!(lines.contains("[-]workers-configmap"), "{lines}");
    blockade.let_go();
    place.end([running]).await;
}
