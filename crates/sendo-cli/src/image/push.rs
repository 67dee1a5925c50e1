//! Pushing to a registry.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, Error, Result, anyhow, bail};
use docker_credential::DockerCredential;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};

use super::describe::{INDEX, Index, MANIFEST};
use super::progress::Progress;

/// What an image is called: a registry, a repository and a tag.
#[derive(Clone, Debug)]
pub(super) struct Target {
    reference: Reference,
    /// As it was typed, with a tag.
    text: String,
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let reference: Reference = text.parse().map_err(|error| {
            anyhow!("`{text}` is no name of an image ({error}): it is like registry.example.dev/bar:1.0, in small letters")
        })?;
        if reference.digest().is_some() {
            bail!(
                "`{text}` names an image by its digest: name it by a tag, as in registry.example.dev/bar:1.0"
            );
        }
        let has_tag = text
            .rsplit('/')
            .next()
            .is_some_and(|last| last.contains(':'));
        Ok(Target {
            text: match has_tag {
                true => text.to_owned(),
                false => format!("{text}:latest"),
            },
            reference,
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Pushes the images, those of several platforms with the list of them. What the registry has
/// already is not sent again.
pub(super) async fn push(target: &Target, index: &Index, plain_http: bool) -> Result<()> {
    let name = &target.reference;
    let host = name.resolve_registry().to_owned();
    let protocol = match plain_http || is_this_machine(&host) {
        true => ClientProtocol::HttpsExcept(vec![host.clone()]),
        false => ClientProtocol::Https,
    };
    // Who has chosen another one before has it.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let client = Client::new(ClientConfig {
        protocol,
        ..ClientConfig::default()
    });
    let auth = credentials(&host)?;
    let refused = |error: OciDistributionError| refusal(&host, &auth, error);
    client
        .auth(name, &auth, RegistryOperation::Push)
        .await
        .map_err(refused)?;
    let images = index.images.iter();
    let progress = Progress::new("pushing", images.map(|image| image.size()).sum());
    for image in &index.images {
        for (digest, data) in image.parts() {
            if !client.blob_exists(name, &digest).await.map_err(refused)? {
                let sent = client.push_blob(name, data.to_vec(), &digest).await;
                sent.map_err(refused)?;
            }
            progress.add(data.len() as u64);
        }
        // One of several platforms has no name of its own.
        let named = match index.images.len() {
            1 => name.clone(),
            _ => name.clone_with_digest(image.digest()),
        };
        let manifest = image.manifest.clone();
        let sent = client
            .push_manifest_raw(&named, manifest, MANIFEST.parse()?)
            .await;
        sent.map_err(refused)?;
        progress.add(image.manifest.len() as u64);
    }
    if let Some(list) = index.list() {
        let sent = client.push_manifest_raw(name, list, INDEX.parse()?).await;
        sent.map_err(refused)?;
    }
    Ok(())
}

/// Whether a registry is on this machine, where TLS is not usual.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_loopback = |name: &str| {
        let address = name.parse::<std::net::IpAddr>();
        address.is_ok_and(|address| address.is_loopback())
    };
    name == "localhost" || is_loopback(name)
}

/// The credentials of `docker login`, or of `podman login`.
fn credentials(host: &str) -> Result<RegistryAuth> {
    // The one registry that is not called by its host's name there.
    let server = match host {
        "index.docker.io" | "docker.io" => "https://index.docker.io/v1/",
        other => other,
    };
    let mut failed = None;
    for found in [
        docker_credential::get_credential(server),
        docker_credential::get_podman_credential(server),
    ] {
        match found {
            Ok(DockerCredential::UsernamePassword(name, password)) => {
                return Ok(RegistryAuth::Basic(name, password));
            }
            Ok(DockerCredential::IdentityToken(token)) => {
                return Ok(RegistryAuth::Bearer(token));
            }
            Err(error) => {
                use docker_credential::CredentialRetrievalError as E;
                if let E::HelperCommunicationError
                | E::MalformedHelperResponse
                | E::HelperFailure { .. } = &error
                {
                    failed.get_or_insert(error);
                }
            }
        }
    }
    match failed {
        Some(error) => Err(anyhow!(error)).with_context(|| {
            format!("the helper that keeps the credentials of {host} does not give them: log in again with `docker login {host}`")
        }),
        None => Ok(RegistryAuth::Anonymous),
    }
}

/// An error of a registry with what can be done about it.
fn refusal(host: &str, auth: &RegistryAuth, error: OciDistributionError) -> Error {
    use OciDistributionError as E;
    let who = match auth {
        RegistryAuth::Anonymous => "nobody is logged in".to_owned(),
        RegistryAuth::Basic(name, _) => format!("you are logged in as {name}"),
        RegistryAuth::Bearer(_) => "you are logged in with a token".to_owned(),
    };
    let login = format!(
        "the registry {host} refuses: {who}; log in with `docker login {host}` or `podman login {host}` as somebody who may push there"
    );
    let status = match &error {
        E::AuthenticationFailure(_) | E::UnauthorizedError { .. } => Some(401),
        E::ServerError { code, .. } => Some(*code),
        E::RequestError(sent) => sent.status().map(|status| status.as_u16()),
        _ => None,
    };
    let why = match (status, &error) {
        (Some(401 | 403), _) => login,
        (None, E::RequestError(_)) => format!(
            "cannot reach the registry {host}: is its name right, and is it reached by https? --plain-http leaves TLS out"
        ),
        _ => format!("the registry {host} refuses the image ({who})"),
    };
    Error::new(error).context(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images_are_checked() {
        let name = |text: &str| text.parse::<Target>().map(|target| target.to_string());
        assert_eq!(
            name("localhost:5000/bar:1").unwrap(),
            "localhost:5000/bar:1"
        );
        for wrong in ["Bar:1", "bar:", "", "a b"] {
            let error = format!("{:#}", name(wrong).unwrap_err());
            assert!(error.contains("registry.example.dev/bar:1.0"), "{error}");
        }
        let digest = format!("bar@sha256:{}", "a".repeat(64));
        assert!(format!("{:#}", name(&digest).unwrap_err()).contains("by a tag"));
    }

    #[test]
    fn registries_of_this_machine_are_known() {
        for host in [
            "localhost",
            "localhost:5000",
            "127.0.0.1:5000",
            "[::1]:5000",
        ] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "registry.example.dev",
            "10.0.0.1:5000",
            "localhost.example.dev",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
