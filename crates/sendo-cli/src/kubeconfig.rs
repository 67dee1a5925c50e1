//! The file by which clients find the cluster.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use kube::config::Kubeconfig;

/// The cluster's name in the file.
const CLUSTER: &str = "sendo";

/// Refuses a file that somebody may miss: one that is not only about a cluster of ours.
pub(crate) fn check_replaceable(path: &Path) -> Result<()> {
    // What cannot be read is told when it is written.
    let Ok(found) = std::fs::read_to_string(path) else {
        return Ok(());
    };
    let only_ours = |config: Kubeconfig| {
        config
            .clusters
            .iter()
            .all(|cluster| cluster.name == CLUSTER)
    };
    if !found.trim().is_empty() && !Kubeconfig::from_yaml(&found).is_ok_and(only_ours) {
        bail!(
            "{} is not a kubeconfig of Sendo alone and would be lost: choose another place with --kubeconfig FILE",
            path.display()
        );
    }
    Ok(())
}

/// Writes `content` so that only its owner can read it: it holds the administrator's key.
pub(crate) fn write(path: &Path, content: &str) -> Result<()> {
    let fix = || {
        format!(
            "cannot write the kubeconfig {}: choose another place with --kubeconfig FILE",
            path.display()
        )
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder).with_context(fix)?;
    }
    // Beside its place first: whoever reads it finds the old one or the new one, never half of it.
    let draft = path.with_extension(format!("{}.new", std::process::id()));
    let written = private_file(&draft)
        .and_then(|mut file| file.write_all(content.as_bytes()))
        .and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written.with_context(fix)
}

#[cfg(unix)]
fn private_file(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    // Never a file, or a link, that somebody else has laid there.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

#[cfg(not(unix))]
fn private_file(path: &Path) -> std::io::Result<std::fs::File> {
    std::fs::File::create(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/down/config");
        write(&path, "first").unwrap();
        write(&path, "second").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_place_that_cannot_be_written_names_the_flag() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = write(&file.join("config"), "x").unwrap_err().to_string();
        assert!(error.contains("--kubeconfig FILE"), "{error}");
    }

    #[test]
    fn what_is_not_ours_alone_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        check_replaceable(&path).unwrap();
        let with = |names: &[&str]| {
            let cluster = |name| json!({"name": name, "cluster": {"server": "https://10.0.0.1"}});
            let clusters: Vec<_> = names.iter().map(cluster).collect();
            json!({"apiVersion": "v1", "kind": "Config", "clusters": clusters}).to_string()
        };
        for ours in [String::new(), "\n".to_owned(), with(&[]), with(&["sendo"])] {
            std::fs::write(&path, &ours).unwrap();
            check_replaceable(&path).unwrap_or_else(|error| panic!("{ours}: {error}"));
        }
        for theirs in [
            with(&["production"]),
            with(&["sendo", "production"]),
            "dear".to_owned(),
        ] {
            std::fs::write(&path, &theirs).unwrap();
            let error = check_replaceable(&path).unwrap_err().to_string();
            assert!(error.contains("--kubeconfig FILE"), "{error}");
        }
    }
}
