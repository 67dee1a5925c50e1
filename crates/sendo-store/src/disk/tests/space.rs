//! Tests of a full disk, and of one with free space again.

use std::io::Write;

use tracing::subscriber;

use super::*;

/// What was logged, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Opens a store whose log this is.
    fn record(&self, open: impl FnOnce() -> Disk) -> Disk {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish();
        subscriber::with_default(subscriber, open)
    }

    /// How often the beginning and the end of a shortage were logged.
    fn counts(&self) -> (usize, usize) {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        let count = |level, what| {
            let lines = text.lines();
            lines
                .filter(|line| line.contains(level) && line.contains(what))
                .count()
        };
        (
            count("ERROR", "the disk is full"),
            count("INFO", "the disk has space again"),
        )
    }
}

fn create(store: &Disk, key: String, size: usize) -> BoxFuture<'_, Result<Revision, Error>> {
    store.commit(Transaction::new().put(key, "x".repeat(size)))
}

/// Creates until there is no room; how many there are then.
async fn fill(store: &Disk, size: usize) -> usize {
    for number in 0..20_000 {
        match create(store, format!("key-{number:05}"), size).await {
            Ok(_) => {}
            Err(Error::Full) => return number,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the disk never fills");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_deletions_go_through_and_with_space_again_everything_does() {
    let log = Log::default();
    let disk = SimulatedDisk::with_room(4 * RESERVED);
    let store = log.record(|| disk.open());
    let count = fill(&store, 5000).await;
    assert!(count > 100, "{count}");
    assert!(matches!(store.health(), Err(Error::Full)));
    // Somebody else fills what is left of the reserve, but for 1 MiB.
    disk.set_room(256);

    // What is refused changes nothing, and does not end the condition.
    let newest = store.revision();
    for number in 0..50 {
        let refused = create(&store, format!("new-{number}"), 100).await;
        assert!(matches!(refused, Err(Error::Full)), "{refused:?}");
    }
    let grown = create(&store, "key-00000".to_owned(), 50_000).await;
    assert!(matches!(grown, Err(Error::Full)), "{grown:?}");
    assert_eq!(store.revision(), newest);

    // A deletion may mark first, with a little more.
    create(&store, "key-00000".to_owned(), 5200).await.unwrap();
    for number in 0..count {
        let key = format!("key-{number:05}");
        let mark = Transaction::new().put(key.clone(), "x".repeat(5100));
        let both = mark.then(Transaction::new().delete(key));
        store.commit(both).await.unwrap();
    }
    assert_eq!(log.counts(), (1, 0));

    disk.set_room(10 * RESERVED);
    create(&store, "new".to_owned(), 5000).await.unwrap();
    store.health().unwrap();
    assert_eq!(log.counts(), (1, 1));
    let newest = store.revision();
    drop(store);
    let again = disk.open();
    assert_eq!(again.revision(), newest);
    let page = again
        .range(KeyRange::all(), At::Latest, None)
        .await
        .unwrap();
    assert_eq!(page.entries.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_is_the_first_to_find_no_space_goes_through() {
    let log = Log::default();
    let disk = SimulatedDisk::with_room(4 * RESERVED);
    let store = log.record(|| disk.open());
    for number in 0..400 {
        create(&store, format!("key-{number}"), 5000).await.unwrap();
    }
    disk.set_room(0);
    for number in 0..400 {
        let delete = Transaction::new().delete(format!("key-{number}"));
        store.commit(delete).await.unwrap();
    }
    assert!(log.counts().0 <= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_deleted_gives_its_space_back() {
    let log = Log::default();
    let disk = SimulatedDisk::with_room(6 * RESERVED);
    let store = log.record(|| disk.open());
    let count = fill(&store, 60_000).await;
    for number in 0..count {
        let delete = Transaction::new().delete(format!("key-{number:05}"));
        store.commit(delete).await.unwrap();
    }
    // Nobody else gave anything back.
    create(&store, "new".to_owned(), 60_000).await.unwrap();
    assert_eq!(log.counts(), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_opened_on_a_full_disk_can_be_read_and_says_so() {
    let log = Log::default();
    let disk = SimulatedDisk::formatted();
    let store = disk.open();
    put(&store, "a", "1").await;
    drop(store);
    disk.0.lock().holds_reserve = false;
    disk.set_room(0);
    let store = log.record(|| disk.open());
    assert!(matches!(store.health(), Err(Error::Full)));
    let refused = create(&store, "b".to_owned(), 1).await;
    assert!(matches!(refused, Err(Error::Full)), "{refused:?}");
    let read = store.get("a", At::Latest).await.unwrap();
    assert_eq!(read.entry.unwrap().value, "1");
    assert_eq!(log.counts(), (1, 0));
    disk.set_room(3 * RESERVED);
    create(&store, "b".to_owned(), 1).await.unwrap();
    assert_eq!(log.counts(), (1, 1));
}
