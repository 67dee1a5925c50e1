//! Tests of the store on disk: the contract, reopening, damaged files, power cuts, a full disk.

use std::collections::BTreeSet;
use std::io;

use futures::StreamExt;
use parking_lot::Mutex;
use redb::{Builder, Database, DatabaseError, StorageBackend};
use sendo_world::World;
use tempfile::TempDir;

use super::medium::Medium;
use super::*;
use crate::{At, Batch, KeyRange, Store};

/// A store in a temporary folder.
struct InTempDir {
    // Fields are dropped in this order: the store is closed before its folder is removed.
    store: Disk,
    _folder: TempDir,
}

impl LiveStore for InTempDir {
    fn live(&self) -> &Arc<Live> {
        self.store.live()
    }
    fn can_write(&self) -> Result<(), Error> {
        self.store.can_write()
    }
    fn write(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, Error>> {
        self.store.write(transaction)
    }
    fn forget(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        self.store.forget(through)
    }
}

async fn open(keep: Option<usize>) -> InTempDir {
    let defaults = Retention::default();
    let retention = Retention {
        keep_changes: keep.unwrap_or(defaults.keep_changes),
        ..defaults
    };
    let folder = tempfile::tempdir().unwrap();
    let clock = World::seeded(0).clock().clone();
    let store = Disk::open(folder.path(), clock, retention).unwrap();
    InTempDir {
        store,
        _folder: folder,
    }
}

crate::contract!(open);

fn reopen(folder: &Path) -> Result<Disk, OpenError> {
    let clock = World::seeded(0).clock().clone();
    Disk::open(folder, clock, Retention::default())
}

async fn put(store: &Disk, key: &str, value: &str) -> Revision {
    let put = Transaction::new().put(key, value.to_owned());
    store.commit(put).await.unwrap()
}

/// Everything after `after`.
async fn changes(store: &Disk, after: Revision) -> Vec<Batch> {
    let newest = store.revision();
    let mut watch = store.watch(KeyRange::all(), after).unwrap();
    let mut seen = Vec::new();
    while watch.progress() < newest {
        seen.push(watch.next().await.unwrap().unwrap());
    }
    seen
}

#[tokio::test]
async fn a_reopened_store_has_its_entries_revision_and_history() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path()).unwrap();
    put(&store, "a", "1").await;
    put(&store, "b", "1").await;
    let both = Transaction::new().put("b", "2").delete("a").put("c", "1");
    store.commit(both).await.unwrap();
    put(&store, "a", "anew").await;
    store.compact(Revision(1)).await.unwrap();
    let before = changes(&store, Revision(1)).await;
    let page = store
        .range(KeyRange::all(), At::Latest, None)
        .await
        .unwrap();
    drop(store);

    let store = reopen(folder.path()).unwrap();
    assert_eq!(
        (store.oldest(), store.revision()),
        (Revision(1), Revision(4))
    );
    assert_eq!(changes(&store, Revision(1)).await, before);
    let again = store
        .range(KeyRange::all(), At::Latest, None)
        .await
        .unwrap();
    assert_eq!(again.entries, page.entries);
    let then = store.get("b", At::Revision(Revision(2))).await.unwrap();
    assert_eq!(then.entry.unwrap().value, "1");
    let forgotten = store.watch(KeyRange::all(), Revision(0));
    assert!(matches!(forgotten, Err(Error::Compacted { .. })));
    assert_eq!(put(&store, "d", "1").await, Revision(5));
}

#[tokio::test]
async fn forgotten_changes_are_removed_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let clock = World::seeded(0).clock().clone();
    let retention = Retention {
        keep_changes: 10,
        ..Retention::default()
    };
    let store = Disk::open(folder.path(), clock, retention).unwrap();
    for number in 0..100 {
        put(&store, "a", &number.to_string()).await;
    }
    let oldest = store.oldest();
    assert!(oldest >= Revision(88), "{oldest}");
    drop(store);
    assert_eq!(reopen(folder.path()).unwrap().oldest(), oldest);
}

#[tokio::test]
async fn a_store_in_use_cannot_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let _first = reopen(folder.path()).unwrap();
    let second = reopen(folder.path());
    assert!(matches!(second, Err(OpenError::InUse { .. })), "{second:?}");
}

#[tokio::test]
async fn a_folder_with_other_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "text").unwrap();
    let refused = reopen(folder.path());
    assert!(
        matches!(refused, Err(OpenError::NotAStore { .. })),
        "{refused:?}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn an_unfinished_store_is_created_again() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("objects.redb.new"), "half").unwrap();
    let store = reopen(folder.path()).unwrap();
    assert_eq!(put(&store, "a", "1").await, Revision(1));
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_that_others_could_look_into_is_theirs_no_more() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("deep/down");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    drop(reopen(&folder).unwrap());
    let database = folder.join("objects.redb");
    // As an earlier version left it.
    set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    set_permissions(&database, Permissions::from_mode(0o644)).unwrap();
    drop(reopen(&folder).unwrap());
    assert_eq!((mode(&folder), mode(&database)), (0o700, 0o600));
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn another_format_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    drop(reopen(folder.path()).unwrap());
    let database = Database::open(folder.path().join("objects.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    let numbers = redb::TableDefinition::<&str, u64>::new("numbers");
    transaction
        .open_table(numbers)
        .unwrap()
        .insert("format", 9)
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    let refused = reopen(folder.path()).unwrap_err();
    assert!(
        matches!(refused, OpenError::Version { found: 9, .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("open it with that version"));
}

#[tokio::test]
async fn a_truncated_or_altered_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path()).unwrap();
    for number in 0..50 {
        put(&store, &format!("key-{number}"), &"x".repeat(1000)).await;
    }
    drop(store);
    let path = folder.path().join("objects.redb");
    let whole = std::fs::read(&path).unwrap();
    let half = &whole[..whole.len() / 2];
    let mut altered = whole.clone();
    altered.iter_mut().for_each(|byte| *byte ^= 1);
    for bytes in [half, &altered, b"".as_slice()] {
        std::fs::write(&path, bytes).unwrap();
        let refused = reopen(folder.path());
        assert!(
            matches!(refused, Err(OpenError::Damaged { .. })),
            "{refused:?}"
        );
        assert_eq!(
            std::fs::read(&path).unwrap().len(),
            bytes.len(),
            "it was changed"
        );
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(reopen(folder.path()).unwrap().revision(), Revision(50));
}

/// A disk that can lose its power, and with it what was not synced.
#[derive(Clone, Debug, Default)]
struct SimulatedDisk(Arc<Mutex<Images>>);

/// Where something was written, and what.
type Writes = Vec<(u64, Vec<u8>)>;

#[derive(Debug, Default)]
struct Images {
    written: Vec<u8>,
    synced: Vec<u8>,
    /// Writes since the last sync, of which a real disk keeps any.
    since: Writes,
    syncs: usize,
    /// Whether every write fails.
    failing: bool,
    /// The pages that hold something, and for how many more there is room.
    used: BTreeSet<u64>,
    room: u64,
    holds_reserve: bool,
    /// What there was before each sync: what was synced, and what was written since.
    snapshots: Option<Vec<(Vec<u8>, Writes)>>,
}

const PAGE: u64 = 4096;
const RESERVED: u64 = super::medium::RESERVE / PAGE;

impl StorageBackend for SimulatedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().written.len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = offset as usize;
        out.copy_from_slice(&self.0.lock().written[start..start + out.len()]);
        Ok(())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        let images = &mut *self.0.lock();
        images.written.resize(len as usize, 0);
        // What is cut off is free again; what is added is a hole.
        let freed = images.used.split_off(&len.div_ceil(PAGE));
        images.room = images.room.saturating_add(freed.len() as u64);
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        let images = &mut *self.0.lock();
        if let Some(snapshots) = &mut images.snapshots {
            snapshots.push((images.synced.clone(), images.since.clone()));
        }
        images.synced.clone_from(&images.written);
        images.since.clear();
        images.syncs += 1;
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let images = &mut *self.0.lock();
        if images.failing {
            return Err(io::Error::other("the disk is broken"));
        }
        let pages = offset / PAGE..(offset + data.len() as u64).div_ceil(PAGE);
        let fresh: Vec<_> = pages.filter(|page| !images.used.contains(page)).collect();
        let left = images.room.checked_sub(fresh.len() as u64);
        images.room = left.ok_or(io::ErrorKind::StorageFull)?;
        images.used.extend(fresh);
        let start = offset as usize;
        images.written[start..start + data.len()].copy_from_slice(data);
        images.since.push((offset, data.to_vec()));
        Ok(())
    }
}

impl Medium for SimulatedDisk {
    fn open(&self) -> Result<Database, DatabaseError> {
        Builder::new().create_with_backend(self.clone())
    }
    fn size(&self) -> io::Result<u64> {
        self.len()
    }
    fn hold_reserve(&self, spare: u64) -> io::Result<()> {
        let images = &mut *self.0.lock();
        if images.holds_reserve {
            return Ok(());
        }
        if images.room < RESERVED + spare / PAGE {
            return Err(io::ErrorKind::StorageFull.into());
        }
        images.room -= RESERVED;
        images.holds_reserve = true;
        Ok(())
    }
    fn release_reserve(&self) -> io::Result<()> {
        let images = &mut *self.0.lock();
        if std::mem::take(&mut images.holds_reserve) {
            images.room += RESERVED;
        }
        Ok(())
    }
}

impl SimulatedDisk {
    fn with_room(pages: u64) -> Self {
        let disk = SimulatedDisk::formatted();
        disk.0.lock().room = pages;
        disk
    }

    /// Somebody else takes all the room there is, or gives this much back.
    fn set_room(&self, pages: u64) {
        self.0.lock().room = pages;
    }

    /// The disk after a power cut: what was synced, and those later writes for which `keeps` returns
    /// true.
    fn after_power_cut(&self, mut keeps: impl FnMut() -> bool) -> SimulatedDisk {
        let images = self.0.lock();
        let mut left = images.synced.clone();
        for (offset, data) in images.since.iter().filter(|_| keeps()) {
            let end = *offset as usize + data.len();
            left.resize(left.len().max(end), 0);
            left[*offset as usize..end].copy_from_slice(data);
        }
        SimulatedDisk(Arc::new(Mutex::new(Images {
            synced: left.clone(),
            written: left,
            room: u64::MAX / 2,
            ..Images::default()
        })))
    }

    fn open(&self) -> Disk {
        let file = File::new(Medium::open(self).unwrap(), self.clone());
        let clock = World::seeded(0).clock().clone();
        Disk::with_file(file, clock, Retention::default()).unwrap()
    }

    fn formatted() -> Self {
        let disk = SimulatedDisk::default();
        disk.set_room(u64::MAX / 2);
        File::create(&Medium::open(&disk).unwrap()).unwrap();
        disk
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_loses_no_finished_commit_and_splits_none() {
    let random = World::seeded(7).random().clone();
    for round in 0..20 {
        let disk = SimulatedDisk::formatted();
        let store = Arc::new(disk.open());
        let writers = (0..4).map(|writer| {
            let store = Arc::clone(&store);
            async move {
                let mut answered = Vec::new();
                for number in 0..10 + round {
                    let (left, right) = (
                        format!("l/{writer}/{number}"),
                        format!("r/{writer}/{number}"),
                    );
                    let both = Transaction::new().put(left, "1").put(right, "1");
                    answered.push((store.commit(both).await.unwrap(), writer, number));
                }
                answered
            }
        });
        let answered = futures::future::join_all(writers).await.concat();
        // One more is being written when the power fails.
        let late = Transaction::new().put("l/late", "1").put("r/late", "1");
        let mut late = Box::pin(store.commit(late));
        let _ = futures::poll!(&mut late);
        let left = disk.after_power_cut(|| random.below(0..2) == 0);

        let again = left.open();
        for (revision, writer, number) in answered {
            for side in ["l", "r"] {
                let key = format!("{side}/{writer}/{number}");
                let found = again.get(&key, At::Latest).await.unwrap();
                assert_eq!(found.entry.unwrap().modified, revision, "{key}");
            }
        }
        let late_keys = [
            again
                .get("l/late", At::Latest)
                .await
                .unwrap()
                .entry
                .is_some(),
            again
                .get("r/late", At::Latest)
                .await
                .unwrap()
                .entry
                .is_some(),
        ];
        assert_eq!(late_keys[0], late_keys[1]);
        drop(late);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_commits_share_a_sync() {
    let disk = SimulatedDisk::formatted();
    let store = disk.open();
    let before = disk.0.lock().syncs;
    let puts = (0..500).map(|n| store.commit(Transaction::new().put(format!("k{n}"), "1")));
    for answer in futures::future::join_all(puts).await {
        answer.unwrap();
    }
    let syncs = disk.0.lock().syncs - before;
    assert!(syncs < 100, "{syncs} syncs for 500 commits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_disk_ends_the_writing_and_nothing_else() {
    let disk = SimulatedDisk::formatted();
    let store = disk.open();
    put(&store, "a", "1").await;
    store.health().unwrap();
    disk.0.lock().failing = true;
    let lost = store.commit(Transaction::new().put("a", "2")).await;
    assert!(matches!(lost, Err(Error::Backend(_))), "{lost:?}");
    let message = store.health().unwrap_err().to_string();
    assert!(
        message.contains("until the store is opened again"),
        "{message}"
    );

    // That it works again does not help: what the failed write has left is not known.
    disk.0.lock().failing = false;
    let late = store.commit(Transaction::new().put("b", "1")).await;
    assert_eq!(late.unwrap_err().to_string(), message);
    let read = store.get("a", At::Latest).await.unwrap();
    assert_eq!(read.entry.unwrap().value, "1");

    drop(store);
    let again = disk.open();
    let read = again.get("a", At::Latest).await.unwrap();
    assert_eq!(read.entry.unwrap().value, "1");
    assert_eq!(put(&again, "b", "1").await, Revision(2));
}

mod past;
mod space;
