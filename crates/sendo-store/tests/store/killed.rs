//! A process that writes is killed repeatedly at any time: every commit that returned is on disk,
//! and no commit is there in part.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use sendo_store::{At, Disk, KeyRange, Retention, Revision, Store, Transaction};
use sendo_world::World;

/// The environment variable with the folder of the child, which is this same program.
const FOLDER: &str = "SENDO_STORE_KILLED_FOLDER";
const WRITERS: u64 = 4;

fn open(folder: &Path, world: &World) -> Disk {
    Disk::open(folder, world.clock().clone(), Retention::default()).unwrap()
}

/// The child: writes pairs of keys until it is killed, and prints each commit that returned.
#[tokio::test]
async fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let store = &open(Path::new(&folder), &World::real());
    let writers = (0..WRITERS).map(|writer| async move {
        for number in 0u64.. {
            let value = format!("{number}").repeat(50);
            let [left, right] = ["left", "right"].map(|side| format!("{side}/{writer}"));
            let (left, right) = (
                Transaction::new().put(left, value.clone()),
                Transaction::new().put(right, value),
            );
            // At revisions of their own, and still together.
            store.commit(left.then(right)).await.unwrap();
            println!("answered {writer} {number}");
        }
    });
    futures::future::join_all(writers).await;
}

#[tokio::test]
async fn a_killed_process_leaves_every_finished_commit_and_no_partial_one() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::real();
    let mut answered = 0;
    for round in 0..8u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["killed::child", "--exact", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reader = std::thread::spawn(move || {
            let mut last = [None; WRITERS as usize];
            for line in lines.map_while(Result::ok) {
                let mut words = line
                    .split(' ')
                    .skip_while(|word| *word != "answered")
                    .skip(1);
                let numbers = (words.next(), words.next());
                if let (Some(Ok(writer)), Some(Ok(number))) = (
                    numbers.0.map(str::parse::<usize>),
                    numbers.1.map(str::parse::<u64>),
                ) {
                    last[writer] = Some(number);
                }
            }
            last
        });
        std::thread::sleep(Duration::from_millis(40 + 23 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let last = reader.join().unwrap();

        let store = open(folder.path(), &world);
        let page = store
            .range(KeyRange::all(), At::Latest, None)
            .await
            .unwrap();
        let value = |key: String| {
            let entry = page.entries.iter().find(|entry| *entry.key == *key);
            entry.map(|entry| (entry.value.clone(), entry.modified))
        };
        for (writer, last) in last.into_iter().enumerate() {
            let left = value(format!("left/{writer}"));
            let next = left.clone().map(|(value, at)| (value, Revision(at.0 + 1)));
            assert_eq!(
                next,
                value(format!("right/{writer}")),
                "a commit is there in part"
            );
            let Some(last) = last else { continue };
            answered += last + 1;
            // The last commit that was printed, or the next one, which was not printed any more.
            let expected = [last, last + 1].map(|number| format!("{number}").repeat(50));
            let (found, _) = left.expect("a finished commit is on disk");
            assert!(
                expected.iter().any(|value| found == *value),
                "{found:?} is not {last}"
            );
        }
    }
    assert!(answered > 0, "no child ran long enough to write");
}
