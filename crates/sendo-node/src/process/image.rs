//! What an image of a container stands for on a node that runs processes: a program of this
//! machine.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::runtime::StartFailure;

/// The program that an image names: `file:///path`, or a name that the node was given a path for.
pub(super) fn resolve(
    image: &str,
    names: &BTreeMap<String, PathBuf>,
) -> Result<PathBuf, StartFailure> {
    let failed = |message: String| StartFailure {
        reason: "ErrImagePull",
        message,
    };
    let path = match (image.strip_prefix("file://"), names.get(image)) {
        (Some(path), _) => PathBuf::from(path),
        (None, Some(path)) => path.clone(),
        (None, None) => {
            return Err(failed(format!(
                "this node runs programs of its machine, and {image:?} names none: use file:// and a path, such as file:///usr/bin/python3, or give the name a path with `sendo up --runtime process --image {image}=/path/to/program`"
            )));
        }
    };
    match is_executable(&path) {
        _ if !path.is_absolute() => Err(failed(format!("{image:?}: the path is not absolute"))),
        Ok(true) => Ok(path),
        Ok(false) => Err(failed(format!(
            "{}: not an executable file",
            path.display()
        ))),
        Err(error) => Err(failed(format!("{}: {error}", path.display()))),
    }
}

fn is_executable(path: &Path) -> std::io::Result<bool> {
    let metadata = std::fs::metadata(path)?;
    Ok(metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_a_path_or_a_name_with_one() {
        let names = BTreeMap::from([("shell:1".to_owned(), PathBuf::from("/bin/sh"))]);
        let path = |image| resolve(image, &names).map_err(|failure| failure.message);
        assert_eq!(path("file:///bin/sh"), Ok("/bin/sh".into()));
        assert_eq!(path("shell:1"), Ok("/bin/sh".into()));
        assert!(
            path("nginx")
                .unwrap_err()
                .contains("--image nginx=/path/to/program")
        );
        assert!(
            path("file:///no/such/program")
                .unwrap_err()
                .contains("No such file")
        );
        assert!(
            path("file:///etc/passwd")
                .unwrap_err()
                .contains("not an executable")
        );
        assert!(path("file://bin/sh").is_err());
    }
}
