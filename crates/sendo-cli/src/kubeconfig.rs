//! The kubeconfig of the cluster's administrator.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use kube::config::Kubeconfig;

/// The cluster's name in the file.
const CLUSTER: &str = "sendo";

/// Fails if the file has other clusters than Sendo's, because they would be lost.
pub(crate) fn check_replaceable(path: &Path) -> Result<()> {
    // If the file cannot be read, writing it reports why.
    let Ok(found) = std::fs::read_to_string(path) else {
        return Ok(());
    };
    let only_sendo = |config: Kubeconfig| {
        config
            .clusters
            .iter()
            .all(|cluster| cluster.name == CLUSTER)
    };
    if !found.trim().is_empty() && !Kubeconfig::from_yaml(&found).is_ok_and(only_sendo) {
        bail!(
            "{} is not a kubeconfig of Sendo alone and would be lost: choose another place with --kubeconfig FILE",
            path.display()
        );
    }
    Ok(())
}

/// Writes `content` so that only the owner can read it, because it has the administrator's key.
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
    // Written to another file and renamed, so that readers see the old or the new content as a whole.
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
    // Removed first, so that no file or link of another user is written to.
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
    fn only_the_owner_can_read_the_kubeconfig() {
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
    fn a_write_error_names_the_flag() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = write(&file.join("config"), "x").unwrap_err().to_string();
        assert!(error.contains("--kubeconfig FILE"), "{error}");
    }

    #[test]
    fn a_kubeconfig_with_other_clusters_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        check_replaceable(&path).unwrap();
        let with = |names: &[&str]| {
            let cluster = |name| json!({"name": name, "cluster": {"server": "https://10.0.0.1"}});
            let clusters: Vec<_> = names.iter().map(cluster).collect();
            json!({"apiVersion": "v1", "kind": "Config", "clusters": clusters}).to_string()
        };
        for replaceable in [String::new(), "\n".to_owned(), with(&[]), with(&["sendo"])] {
            std::fs::write(&path, &replaceable).unwrap();
            check_replaceable(&path).unwrap_or_else(|error| panic!("{replaceable}: {error}"));
        }
        for other in [
            with(&["production"]),
            with(&["sendo", "production"]),
            "text".to_owned(),
        ] {
            std::fs::write(&path, &other).unwrap();
            let error = check_replaceable(&path).unwrap_err().to_string();
            assert!(error.contains("--kubeconfig FILE"), "{error}");
        }
    }
}
