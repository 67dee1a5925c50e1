//! What lies between a request and the API server.

use super::*;

struct Lease(Mutex<Option<Duration>>);

impl WriteGate for Lease {
    fn open_for(&self) -> Option<Duration> {
        *self.0.lock()
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_cuts_writes_off_and_lets_reads_pass() {
    let (client, mut api) = client();
    let lease = Arc::new(Lease(Mutex::new(Some(Duration::from_secs(4)))));
    let client = client.with_gate(lease.clone());
    let object = map(1, json!({}));
    let before = tokio::time::Instant::now();
    let late = both(client.update(&object), async {
        let _unanswered = api.expect(Method::PUT, ONE).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
    });
    let error = late.await.unwrap_err();
    assert!(error.to_string().contains("no answer within 4s"), "{error}");
    assert!(before.elapsed() < Duration::from_secs(11));

    *lease.0.lock() = None;
    let refused = client.update(&object).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(_)));
    let answer = async {
        let call = api.expect(Method::GET, ONE).await;
        call.answer(200, json_map(1, json!({})));
    };
    let live = client.live();
    assert!(
        both(live.get::<ConfigMap>("a/one"), answer)
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_without_an_answer_is_sent_again_and_a_write_is_not() {
    let (client, mut api) = client();
    let live = client.live();
    let read = both(live.get::<ConfigMap>("a/one"), async {
        api.expect(Method::GET, ONE).await.reset();
        api.expect(Method::GET, ONE)
            .await
            .fail(503, "ServiceUnavailable", "starting");
        let call = api.expect(Method::GET, ONE).await;
        call.answer(200, json_map(10, json!({})));
    });
    assert_eq!(read.await.unwrap().unwrap().version(), 10);
    let read = both(live.get::<ConfigMap>("a/one"), async {
        for _ in 0..4 {
            api.expect(Method::GET, ONE).await.reset();
        }
    });
    assert!(matches!(read.await.unwrap_err(), Error::Transport { .. }));

    let object = map(10, json!({}));
    let write = both(client.update(&object), async {
        api.expect(Method::PUT, ONE).await.reset();
    });
    assert!(matches!(write.await.unwrap_err(), Error::Transport { .. }));
    api.expect_silence(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_server_turned_away_unread_is_sent_again() {
    let (client, mut api) = client();
    let object = map(10, json!({}));
    let clock = client.world().clock().clone();
    let before = clock.now();
    let written = both(client.update(&object), async {
        let call = api.expect(Method::PUT, ONE).await;
        call.turn_away(3);
        let call = api.expect(Method::PUT, ONE).await;
        assert_eq!(clock.now() - before, Duration::from_secs(3));
        call.answer(200, json_map(11, json!({})));
    });
    assert_eq!(written.await.unwrap().version(), 11);
    // What could not come in time is not waited for.
    let refused = both(client.update(&object), async {
        let call = api.expect(Method::PUT, ONE).await;
        call.turn_away(60);
    });
    let error = refused.await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (429, "Too many requests, please try again later.")
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_that_the_server_has_read_is_sent_once() {
    let (client, mut api) = client();
    let mut object = map(0, json!({}));
    object.metadata.name = None;
    object.metadata.generate_name = Some("one-".to_owned());
    // Whether it took place before the time was over is not known.
    for code in [500, 503, 504] {
        let failed = both(client.create(&object), async {
            let call = api.expect(Method::POST, PATH).await;
            call.fail_for(code, "Timeout", "the request took too long", 1);
        });
        assert_eq!(failed.await.unwrap_err().code(), code);
    }
    // A budget that allows no eviction is an answer, and no sign of overload.
    let (key, body) = (ObjectKey::from("a/p"), json!({}));
    let eviction = client.subresource::<Pod>(&key, "eviction").unwrap();
    let refused = both(eviction.create::<Value>(&body), async {
        let path = "/api/v1/namespaces/a/pods/p/eviction";
        let call = api.expect(Method::POST, path).await;
        call.fail_for(429, "TooManyRequests", "it would violate the budget", 10);
    });
    let refused = refused.await.unwrap_err();
    assert_eq!(refused.code(), 429);
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(10)));
    api.expect_silence(Duration::from_secs(60)).await;
    // A read does no harm.
    let live = client.live();
    let read = both(live.get::<ConfigMap>("a/one"), async {
        let call = api.expect(Method::GET, ONE).await;
        call.fail_for(429, "TooManyRequests", "storage is initialising", 1);
        let call = api.expect(Method::GET, ONE).await;
        call.answer(200, json_map(10, json!({})));
    });
    assert_eq!(read.await.unwrap().unwrap().version(), 10);
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_turn() {
    let (kube, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
    let rate = Rate {
        per_second: 2.0,
        burst: 2,
    };
    let options = ClientOptions {
        rate: Some(Arc::new(RateLimit::new(rate))),
        ..ClientOptions::default()
    };
    let client = Client::new(kube, cache, world.clone(), options);
    let before = world.clock().now();
    let reads = async {
        for _ in 0..4 {
            client.live().get::<ConfigMap>("a/one").await.unwrap();
        }
    };
    both(reads, async {
        for after in [0, 0, 500, 1000] {
            let call = api.expect(Method::GET, ONE).await;
            let passed = (world.clock().now() - before).as_millis();
            assert!(passed.abs_diff(after) <= 1, "{passed} rather than {after}");
            call.answer(200, json_map(10, json!({})));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_interceptor_sees_every_request_and_can_refuse_it() {
    struct NoDeletes(Mutex<Vec<String>>);
    impl Interceptor for NoDeletes {
        fn before(&self, call: &Call<'_>) -> Result<(), Error> {
            match *call.method {
                Method::DELETE => Err(Error::Refused(format!("not here: {call:?}"))),
                _ => Ok(()),
            }
        }
        fn after(&self, call: &Call<'_>, outcome: Result<&[u8], &Error>) {
            let line = format!("{call:?} {}", outcome.is_ok());
            self.0.lock().push(line);
        }
    }
    let (client, mut api) = client();
    let seen = Arc::new(NoDeletes(Mutex::default()));
    let client = client.with_interceptor(seen.clone());
    let refused = client.delete::<ConfigMap>(&ObjectKey::from("a/one")).await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        format!("not here: DELETE {ONE}")
    );
    let object = map(10, json!({}));
    let strict = client.strict();
    let failed = both(strict.update(&object), async {
        let call = api.expect(Method::PUT, ONE).await;
        assert!(call.has("fieldValidation=Strict"));
        call.fail(409, "Conflict", "changed");
    });
    failed.await.unwrap_err();
    assert_eq!(*seen.0.lock(), [format!("PUT {ONE} false")]);
}
