//! The folder of a store, whatever the umask of the process that makes it.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use sendo_store::{Disk, Retention};
use sendo_world::World;

/// Tells the child, which is this same program, where to make a store.
const FOLDER: &str = "SENDO_STORE_PRIVATE_FOLDER";

#[tokio::test]
async fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let clock = World::real().clock().clone();
    Disk::open(Path::new(&folder), clock, Retention::default()).unwrap();
}

#[test]
fn a_new_folder_is_its_owners_alone_whatever_the_umask() {
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for umask in ["000", "022", "077"] {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("boat");
        let made = Command::new("sh")
            .args([
                "-c",
                &format!("umask {umask}; exec \"$0\" private::child --exact"),
            ])
            .arg(std::env::current_exe().unwrap())
            .env(FOLDER, &folder)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        assert_eq!(mode(&folder), 0o700, "umask {umask}");
        let files: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
        assert!(!files.is_empty());
        for file in files {
            let path = file.unwrap().path();
            assert_eq!(mode(&path), 0o600, "{} with umask {umask}", path.display());
        }
    }
}
