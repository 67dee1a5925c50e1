//! The queue with its lock, its clock and its waiting workers.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

const HOUR: Duration = Duration::from_secs(3600);

fn queue(world: &World) -> Queue<u32> {
    Queue::new(world, Options::default())
}

#[tokio::test(start_paused = true)]
async fn a_worker_waits_for_a_delayed_entry_exactly_as_long_as_said() {
    let world = World::seeded(1);
    let queue = queue(&world);
    queue.add(1, Add::because(Reason::AFTER).after(HOUR));
    let before = world.clock().now();
    let picked = queue.next().await.unwrap();
    assert_eq!(world.clock().now() - before, HOUR);
    assert_eq!((*picked.key(), picked.waited()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn an_earlier_entry_moves_the_timer_forward() {
    let world = World::seeded(1);
    let queue = queue(&world);
    let worker = {
        let queue = queue.clone();
        world
            .tasks()
            .spawn("worker", async move { *queue.next().await.unwrap().key() })
    };
    queue.add(1, Add::because(Reason::AFTER).after(HOUR));
    world.clock().sleep(HOUR / 4).await;
    queue.add(2, Add::because(Reason::AFTER).after(HOUR / 4));
    let before = world.clock().now();
    assert_eq!(worker.output().await, Some(2));
    assert_eq!(world.clock().now() - before, HOUR / 4);
}

#[tokio::test(start_paused = true)]
async fn entries_that_fall_due_together_wake_as_many_workers() {
    let world = World::seeded(1);
    let queue = queue(&world);
    let busy = Arc::new(AtomicUsize::new(0));
    for _ in 0..8 {
        let (queue, busy, clock) = (queue.clone(), busy.clone(), world.clock().clone());
        world.tasks().spawn("worker", async move {
            let _picked = queue.next().await;
            busy.fetch_add(1, Ordering::Relaxed);
            clock.sleep(HOUR).await;
        });
    }
    world.clock().sleep(HOUR).await;
    for key in 0..8 {
        queue.add(key, Add::because(Reason::AFTER).after(HOUR));
    }
    world.clock().sleep(HOUR + Duration::from_secs(1)).await;
    assert_eq!(busy.load(Ordering::Relaxed), 8);
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_or_is_cancelled_counts_as_done() {
    let world = World::seeded(1);
    let queue = queue(&world);
    queue.add(1, Reason::EVENT);
    let panics = {
        let queue = queue.clone();
        world.tasks().spawn("panics", async move {
            let picked = queue.next().await.unwrap();
            queue.add(*picked.key(), Reason::EVENT);
            panic!("on purpose");
        })
    };
    assert_eq!(panics.output().await, None::<()>);
    let cancelled = async {
        let picked = queue.next().await.unwrap();
        queue.add(*picked.key(), Reason::EVENT);
        std::future::pending::<()>().await;
    };
    assert_eq!(world.clock().timeout(HOUR, cancelled).await, None);
    assert_eq!(*queue.next().await.unwrap().key(), 1);
    assert!(queue.shared.lock().is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_waiting_takes_no_entry_with_it() {
    let world = World::seeded(1);
    let queue = queue(&world);
    let mut first = Box::pin(queue.next());
    let mut second = Box::pin(queue.next());
    assert!(futures::poll!(&mut first).is_pending());
    assert!(futures::poll!(&mut second).is_pending());
    queue.add(1, Reason::EVENT);
    drop(first); // it had been woken
    assert_eq!(*second.await.unwrap().key(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_every_worker_ends_once_the_queue_is_drained() {
    let world = World::seeded(1);
    let queue = queue(&world);
    for _ in 0..4 {
        let (queue, clock) = (queue.clone(), world.clock().clone());
        world.tasks().spawn("worker", async move {
            while let Some(_picked) = queue.next().await {
                clock.sleep(Duration::from_secs(1)).await;
            }
        });
    }
    world.clock().sleep(HOUR).await;
    for key in 0..10 {
        queue.add(key, Reason::EVENT);
    }
    queue.add(99, Add::because(Reason::AFTER).after(HOUR));
    queue.shut_down();
    let before = world.clock().now();
    queue.drained().await;
    assert_eq!(world.clock().now() - before, Duration::from_secs(3));
    drop(queue);
    world.tasks().ended().await;
}

#[tokio::test(start_paused = true)]
async fn its_timer_ends_with_the_last_clone() {
    let world = World::seeded(1);
    let queue = queue(&world);
    queue.add(1, Add::because(Reason::AFTER).after(HOUR));
    let clone = queue.clone();
    drop(queue);
    assert_eq!(world.tasks().running(), ["world/queue-timer"]);
    drop(clone);
    let before = world.clock().now();
    world.tasks().ended().await;
    assert_eq!(world.clock().now(), before);
}

#[tokio::test(start_paused = true)]
async fn a_queue_whose_world_stops_is_shut_down() {
    let world = World::seeded(1);
    let queue = queue(&world);
    queue.add(1, Add::because(Reason::AFTER).after(HOUR));
    world.tasks().stop().await;
    assert!(queue.next().await.is_none());
    assert_eq!(queue.add(2, Reason::EVENT), Added::Refused);
}

#[tokio::test(start_paused = true)]
async fn a_busy_worker_lets_others_run() {
    let world = World::seeded(1);
    let queue = queue(&world);
    queue.add(1, Reason::EVENT);
    let stop = world.tasks().stopping().clone();
    let spinning = {
        let queue = queue.clone();
        world.tasks().spawn("spins", async move {
            while !stop.is_cancelled() {
                queue
                    .next()
                    .await
                    .unwrap()
                    .again_after(Duration::ZERO, Priority::NORMAL);
            }
        })
    };
    world.tasks().spawn("other", async {}).output().await;
    world.tasks().stopping().cancel();
    assert_eq!(spinning.output().await, Some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_many_threads_no_key_is_worked_on_twice_at_once_and_none_is_lost() {
    let world = World::real();
    let queue = queue(&world);
    let in_work: Arc<Vec<AtomicUsize>> = Arc::new((0..10).map(|_| AtomicUsize::new(0)).collect());
    let finished = Arc::new(AtomicUsize::new(0));
    for _ in 0..8 {
        let (queue, in_work) = (queue.clone(), in_work.clone());
        let finished = finished.clone();
        world.tasks().spawn("worker", async move {
            while let Some(picked) = queue.next().await {
                let slot = &in_work[*picked.key() as usize];
                assert_eq!(slot.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                slot.fetch_sub(1, Ordering::SeqCst);
                finished.fetch_add(picked.reasons().adds() as usize, Ordering::SeqCst);
            }
        });
    }
    let adders: Vec<_> = (0..4)
        .map(|adder| {
            let queue = queue.clone();
            world.tasks().spawn("adder", async move {
                for n in 0..5000_u32 {
                    queue.add((n * (adder + 1)) % 10, Reason::EVENT);
                    if n % 100 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for adder in adders {
        adder.output().await;
    }
    queue.shut_down();
    queue.drained().await;
    assert_eq!(finished.load(Ordering::SeqCst), 4 * 5000);
    world.tasks().stop().await;
}
