//! The documents of an image: configuration, manifest, index (OCI image-spec v1.1).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::files::USER;
use super::layer::{Layer, digest};
use super::platform::Platform;

/// Labels of an image, by name.
pub(super) type Labels = BTreeMap<String, String>;

pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// When all images were made, so that the same program makes the same image.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// An image for one platform.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) platform: Platform,
    pub(super) layers: Vec<Layer>,
    pub(super) config: Vec<u8>,
    pub(super) manifest: Vec<u8>,
    /// The paths in it.
    pub(super) files: Vec<String>,
}

impl Image {
    pub(super) fn new(
        platform: Platform,
        entry: &str,
        layers: Vec<Layer>,
        labels: &Labels,
        files: Vec<String>,
    ) -> Self {
        let history = [
            "the system: libraries, certificate authorities, a user",
            "the program",
        ];
        let history = history
            .map(|by| json!({"created": CREATED, "created_by": format!("sendo image: {by}")}));
        let mut config = json!({
            "created": CREATED,
            "architecture": platform.architecture,
            "os": "linux",
            "config": {
                "User": format!("{USER}:{USER}"),
                "Env": [
                    "PATH=/usr/local/bin",
                    "HOME=/home/nonroot",
                    "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
                ],
                "Entrypoint": [entry],
                "WorkingDir": "/home/nonroot",
                "Labels": labels,
            },
            "rootfs": {
                "type": "layers",
                "diff_ids": layers.iter().map(|layer| &layer.diff_id).collect::<Vec<_>>(),
            },
            "history": history,
        });
        if let Some(variant) = &platform.variant {
            config["variant"] = json!(variant);
        }
        let config = config.to_string().into_bytes();
        let described = layers.iter().map(
            |layer| json!({"mediaType": LAYER, "digest": layer.digest, "size": layer.blob.len()}),
        );
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": digest(&config), "size": config.len()},
            "layers": described.collect::<Vec<_>>(),
            "annotations": labels,
        });
        Image {
            platform,
            layers,
            config,
            manifest: manifest.to_string().into_bytes(),
            files,
        }
    }

    /// The digest by which it is known.
    pub(super) fn digest(&self) -> String {
        digest(&self.manifest)
    }

    /// How many bytes are stored of it, and pulled.
    pub(super) fn size(&self) -> u64 {
        let layers = self.layers.iter().map(|layer| layer.blob.len());
        (layers.sum::<usize>() + self.config.len() + self.manifest.len()) as u64
    }

    /// What its manifest names, by digest.
    pub(super) fn parts(&self) -> Vec<(String, &[u8])> {
        let layers = self
            .layers
            .iter()
            .map(|layer| (layer.digest.clone(), &layer.blob[..]));
        let config = (digest(&self.config), &self.config[..]);
        layers.chain([config]).collect()
    }

    fn descriptor(&self) -> Value {
        let mut platform = json!({"architecture": self.platform.architecture, "os": "linux"});
        if let Some(variant) = &self.platform.variant {
            platform["variant"] = json!(variant);
        }
        json!({
            "mediaType": MANIFEST,
            "digest": self.digest(),
            "size": self.manifest.len(),
            "platform": platform,
        })
    }
}

/// The images of a program for all its platforms.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) images: Vec<Image>,
    /// What it is called.
    pub(super) tag: String,
}

impl Index {
    pub(super) fn new(images: Vec<Image>, tag: String) -> Self {
        Index { images, tag }
    }

    /// The list of the images for a registry; `None` if there is one alone, which needs none.
    pub(super) fn list(&self) -> Option<Vec<u8>> {
        if self.images.len() == 1 {
            return None;
        }
        let manifests = self.images.iter().map(Image::descriptor);
        let list = json!({
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": manifests.collect::<Vec<_>>(),
        });
        Some(list.to_string().into_bytes())
    }

    /// The digest by which it is pulled.
    pub(super) fn digest(&self) -> String {
        match self.list() {
            Some(list) => digest(&list),
            None => self.images[0].digest(),
        }
    }

    /// `index.json` of the OCI layout, which has the name.
    pub(super) fn layout_index(&self) -> Value {
        let tag = self.tag.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        let named = json!({
            "org.opencontainers.image.ref.name": tag,
            "io.containerd.image.name": self.tag,
        });
        let mut descriptor = match self.list() {
            None => self.images[0].descriptor(),
            Some(list) => {
                json!({"mediaType": INDEX, "digest": digest(&list), "size": list.len()})
            }
        };
        descriptor["annotations"] = named;
        json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]})
    }

    /// `manifest.json`, which `docker load` reads where it does not know the OCI layout. It names
    /// one platform, the first.
    pub(super) fn docker_manifest(&self) -> Value {
        let image = &self.images[0];
        let path = |digest: &str| format!("blobs/{}", digest.replace(':', "/"));
        json!([{
            "Config": path(&digest(&image.config)),
            "RepoTags": [self.tag],
            "Layers": image.layers.iter().map(|layer| path(&layer.digest)).collect::<Vec<_>>(),
        }])
    }

    /// All parts, each once.
    pub(super) fn blobs(&self) -> BTreeMap<String, Vec<u8>> {
        let mut blobs = BTreeMap::new();
        for image in &self.images {
            let parts = image.parts().into_iter();
            blobs.extend(parts.map(|(digest, data)| (digest, data.to_vec())));
            blobs.insert(image.digest(), image.manifest.clone());
        }
        blobs.extend(self.list().map(|list| (digest(&list), list)));
        blobs
    }
}
