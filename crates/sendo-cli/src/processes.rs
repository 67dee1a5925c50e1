//! How `sendo up --runtime process` runs pods.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sendo_cluster::ProcessOptions;

/// The folder of a cluster's nodes, removed with this value unless it is kept.
#[derive(Debug)]
pub(crate) struct NodeFolder {
    path: PathBuf,
    is_kept: bool,
}

impl NodeFolder {
    /// The folder beside the data of a cluster that is kept; else one for this process only.
    pub(crate) fn new(data: Option<&Path>) -> Result<Self> {
        let path = match data {
            Some(data) => data.join("nodes"),
            None => std::env::temp_dir().join(format!("sendo-{}", std::process::id())),
        };
        let path = std::path::absolute(&path);
        Ok(NodeFolder {
            path: path.context("the current folder is not to be found")?,
            is_kept: data.is_some(),
        })
    }

    /// How nodes with their state in this folder run pods.
    pub(crate) fn options(&self, images: &[String]) -> Result<ProcessOptions> {
        let images = images.iter().map(|image| parse_image(image));
        Ok(ProcessOptions {
            state: self.path.clone(),
            // It stays the same program if its file is replaced.
            shim: "/proc/self/exe".into(),
            images: images.collect::<Result<BTreeMap<_, _>>>()?,
            address: ProcessOptions::address_of_this_machine(),
            outlive_agent: self.is_kept,
        })
    }
}

impl Drop for NodeFolder {
    fn drop(&mut self) {
        if !self.is_kept {
            // Without a pod there is no folder.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// A name of an image, and the program that it stands for: `NAME=PATH`.
fn parse_image(text: &str) -> Result<(String, PathBuf)> {
    let Some((name, path)) = text.rsplit_once('=').filter(|(name, _)| !name.is_empty()) else {
        bail!("--image {text:?} is not NAME=PATH, such as --image python:3=/usr/bin/python3");
    };
    if !Path::new(path).is_absolute() {
        bail!("--image {text:?}: the path of the program has to begin with /");
    }
    Ok((name.to_owned(), path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_a_name_and_a_path() {
        let parsed = parse_image("r.example/py:3=/usr/bin/python3").unwrap();
        assert_eq!(
            parsed,
            ("r.example/py:3".to_owned(), "/usr/bin/python3".into())
        );
        for wrong in ["python", "=/bin/sh", "sh=bin/sh"] {
            let error = parse_image(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
