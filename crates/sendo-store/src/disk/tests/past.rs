//! Tests of the history on disk: its size is limited by that of the current entries.

use super::*;

fn size(folder: &Path) -> u64 {
    folder.join("objects.redb").metadata().unwrap().len()
}

/// Puts values of 2 kB under 100 keys, again and again.
async fn rewrite(store: &Disk, times: usize) {
    let value = "x".repeat(2000);
    for _ in 0..times {
        let puts = (0..100).map(|number| {
            let put = Transaction::new().put(format!("key-{number}"), value.clone());
            store.commit(put)
        });
        for done in futures::future::join_all(puts).await {
            done.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_past_of_few_entries_is_neither_kept_on_disk_nor_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path()).unwrap();
    rewrite(&store, 300).await;
    assert_eq!(store.oldest(), Revision(0), "while it runs it is all there");
    drop(store);
    // The values are 200 kB, and what was written is 60 MB.
    let large = size(folder.path());
    assert!(large < 24 << 20, "{large} bytes");

    let store = reopen(folder.path()).unwrap();
    let (oldest, newest) = (store.oldest(), store.revision());
    assert_eq!(newest, Revision(30_000));
    assert!((900..=1000).contains(&(newest.0 - oldest.0)), "{oldest}");
    // The history that is on disk is complete, and what came before is compacted.
    let kept = changes(&store, oldest).await;
    assert_eq!(kept.len() as u64, newest.0 - oldest.0);
    let gone = store.watch(KeyRange::all(), Revision(oldest.0 - 1));
    assert!(matches!(gone, Err(Error::Compacted { .. })), "{gone:?}");
    let page = store.range(KeyRange::all(), At::Latest, None).await;
    assert_eq!(page.unwrap().entries.len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_far_too_large_is_made_smaller_when_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path()).unwrap();
    let value = "x".repeat(1 << 20);
    for number in 0..96 {
        put(&store, &format!("key-{number}"), &value).await;
    }
    for number in 1..96 {
        let delete = Transaction::new().delete(format!("key-{number}"));
        store.commit(delete).await.unwrap();
    }
    drop(store);
    let before = size(folder.path());
    assert!(before > 32 << 20, "{before} bytes");

    for _ in 0..2 {
        let store = reopen(folder.path()).unwrap();
        let found = store.get("key-0", At::Latest).await.unwrap();
        assert_eq!(found.entry.unwrap().value.len(), 1 << 20);
        assert!(changes(&store, store.oldest()).await.len() < 10);
        let after = size(folder.path());
        assert!(after < 16 << 20, "{after} bytes");
    }
}

#[tokio::test]
async fn what_was_written_too_long_ago_is_no_past_any_more() {
    let disk = SimulatedDisk::formatted();
    let store = disk.open();
    put(&store, "a", "1").await;
    put(&store, "a", "2").await;
    drop(store);
    let file = File::new(Medium::open(&disk).unwrap(), disk.clone());
    let clock = World::seeded(0).clock().clone();
    let retention = Retention::default();
    let after = |passed: u64| {
        let now = file::seconds(&clock) + passed;
        file.read(clock.now(), now, &retention).unwrap().history
    };
    let limit = retention.keep_for.as_secs();
    let oldest = |passed| (after(passed).oldest(), after(passed).newest());
    assert_eq!(oldest(limit - 10), (Revision(0), Revision(2)));
    assert_eq!(oldest(limit + 10), (Revision(2), Revision(2)));
    assert_eq!(after(limit + 10).latest("a").entry.unwrap().value, "2");
}

/// Wherever the power goes while the file is made smaller, all is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_while_the_file_is_made_smaller_loses_nothing() {
    let random = World::seeded(8).random().clone();
    let disk = SimulatedDisk::formatted();
    let store = disk.open();
    for number in 0..300 {
        put(&store, &format!("key-{number:03}"), &"x".repeat(9000)).await;
    }
    for number in (0..300).filter(|number| number % 10 != 0) {
        let delete = Transaction::new().delete(format!("key-{number:03}"));
        store.commit(delete).await.unwrap();
    }
    let (oldest, newest) = (store.oldest(), store.revision());
    drop(store);
    disk.0.lock().snapshots = Some(Vec::new());
    let before = disk.len().unwrap();
    let mut file = File::new(Medium::open(&disk).unwrap(), disk.clone());
    let clock = World::seeded(0).clock().clone();
    file.shrink(oldest, newest, &clock).unwrap();
    drop(file);
    assert!(disk.len().unwrap() < before);

    let snapshots = disk.0.lock().snapshots.take().unwrap();
    assert!(snapshots.len() > 3, "{} syncs", snapshots.len());
    for (synced, since) in snapshots {
        let cut = SimulatedDisk::formatted();
        cut.0.lock().synced = synced;
        cut.0.lock().since = since;
        let again = cut.after_power_cut(|| random.below(0..2) == 0).open();
        assert_eq!((again.oldest(), again.revision()), (oldest, newest));
        let page = again
            .range(KeyRange::prefix("key-"), At::Latest, None)
            .await;
        assert_eq!(page.unwrap().entries.len(), 30);
    }
}
