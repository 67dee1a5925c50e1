//! The objects as a chart for Helm: what installations differ in is in its values.

use serde_json::{Value, json};

use super::ManifestError;
use super::files::Files;
use super::model::{File, Model};
use super::options::Extra;
use super::workload;
use super::yaml::{self, Comments};

/// Which values there are, and of which types; Helm refuses others.
const SCHEMA: &str = include_str!("values.schema.json");

const NOTES: &str = "\
{{ .Chart.Name }} {{ .Chart.AppVersion }} runs in the namespace {{ .Release.Namespace }}:

  kubectl --namespace {{ .Release.Namespace }} rollout status deployment/{{ .Values.name }}
  kubectl --namespace {{ .Release.Namespace }} logs deployment/{{ .Values.name }}

Its kinds stay in the cluster when this release is uninstalled, with all their objects.
";

pub(super) fn files(model: &Model<'_>) -> Result<Files, ManifestError> {
    let version = version_of(model)?;
    let mut files = Files::new(&model.manager.name);
    let chart = json!({
        "apiVersion": "v2",
        "name": model.options.name,
        "description": model.manager.description.clone().unwrap_or_else(|| format!("{}, a controller for Kubernetes", model.manager.name)),
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": ">=1.29.0-0",
    });
    files.add("Chart.yaml", &yaml::document(&chart, &Comments::new()));
    files.add("values.yaml", &values(model));
    files.add_raw("values.schema.json", SCHEMA);
    files.add_raw("templates/NOTES.txt", NOTES);
    for mut item in model.items() {
        if item.file == File::Crds {
            item.object["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
        }
        let document = yaml::as_template(&yaml::document(&item.object, &item.comments));
        let condition = match (item.file, item.extra) {
            (File::Crds, _) => Some(".Values.crds.install"),
            (_, Some(Extra::NetworkPolicy)) => Some(".Values.networkPolicy.enabled"),
            (_, Some(Extra::ServiceMonitor)) => Some(".Values.serviceMonitor.enabled"),
            (_, Some(Extra::Dashboard)) => Some(".Values.dashboard.enabled"),
            _ => None,
        };
        // Helm orders objects by their kinds, so the files need no numbers.
        let name = item
            .file
            .name()
            .split_once('-')
            .map_or(item.file.name(), |parts| parts.1);
        let text = match condition {
            Some(condition) => {
                format!("{{{{- if {condition} }}}}\n---\n{document}{{{{- end }}}}\n")
            }
            None => format!("---\n{document}"),
        };
        files.append(&format!("templates/{name}"), &text);
    }
    Ok(files)
}

/// The version of the program, as charts and bundles want it.
pub(super) fn version_of(model: &Model<'_>) -> Result<String, ManifestError> {
    let version = model.manager.version.as_deref().unwrap_or("0.1.0");
    let numbers: Vec<&str> = version
        .split_once(['-', '+'])
        .map_or(version, |parts| parts.0)
        .split('.')
        .collect();
    let is_number = |part: &&str| {
        part.parse::<u64>()
            .is_ok_and(|number| number.to_string() == **part)
    };
    if numbers.len() == 3 && numbers.iter().all(is_number) {
        return Ok(version.to_owned());
    }
    Err(ManifestError::Format(format!(
        "the version of the program, {version:?}, is no semantic version such as `1.2.0`, which charts and bundles want: write `.version(env!(\"CARGO_PKG_VERSION\"))`"
    )))
}

/// The parts of an image's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) repository: String,
    pub(super) tag: String,
    pub(super) digest: Option<String>,
}

impl Image {
    pub(super) fn parse(image: &str) -> Self {
        let (name, digest) = match image.split_once('@') {
            Some((name, digest)) => (name, Some(digest.to_owned())),
            None => (image, None),
        };
        // A colon before a slash is that of a registry's port.
        let (repository, tag) = match name.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, tag),
            _ => (name, "latest"),
        };
        Image {
            repository: repository.to_owned(),
            tag: tag.to_owned(),
            digest,
        }
    }
}

fn values(model: &Model<'_>) -> String {
    let options = model.options;
    let image = Image::parse(&options.image);
    let environment = options.environment.iter();
    let environment: Vec<Value> = environment
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let has = |extra| json!({"enabled": options.extras.contains(&extra)});
    let values = json!({
        "name": options.name,
        "image": {
            "repository": image.repository,
            "tag": image.tag,
            "digest": image.digest.unwrap_or_default(),
            "pullPolicy": "IfNotPresent",
        },
        "imagePullSecrets": [],
        "replicas": options.replicas,
        "args": [],
        "env": environment,
        "resources": workload::default_resources(),
        "podAnnotations": {},
        "nodeSelector": {},
        "tolerations": [],
        "affinity": {},
        "serviceAccount": {"annotations": {}},
        "crds": {"install": true},
        "networkPolicy": has(Extra::NetworkPolicy),
        "serviceMonitor": has(Extra::ServiceMonitor),
        "dashboard": has(Extra::Dashboard),
    });
    let comments = [
        ("/name", "The name of Deployment, account and roles."),
        (
            "/image/digest",
            "Such as sha256:…; it is used in place of the tag.",
        ),
        (
            "/replicas",
            "One leads; the others take over when it goes, and serve webhooks all the time.",
        ),
        (
            "/args",
            "More arguments of the program: what `--help` shows, such as --log=debug.",
        ),
        (
            "/env",
            "Environment variables of the container, as a Pod has them.",
        ),
        (
            "/crds/install",
            "The kinds of the program. They stay when the release is uninstalled.",
        ),
        (
            "/networkPolicy",
            "Only webhooks, and metrics from labelled namespaces, can be reached.",
        ),
        ("/serviceMonitor", "For the Prometheus operator."),
        ("/dashboard", "For Grafana's sidecar."),
    ];
    let comments = comments.map(|(path, text)| (path.to_owned(), text.to_owned()));
    yaml::document(&values, &Comments::from(comments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_a_repository_and_a_tag_or_a_digest() {
        let parts = |image: &str| {
            let image = Image::parse(image);
            (image.repository, image.tag, image.digest)
        };
        let expected =
            |a: &str, b: &str, c: Option<&str>| (a.to_owned(), b.to_owned(), c.map(str::to_owned));
        assert_eq!(parts("bar"), expected("bar", "latest", None));
        assert_eq!(
            parts("host:5000/a/bar:1.2"),
            expected("host:5000/a/bar", "1.2", None)
        );
        assert_eq!(
            parts("host:5000/bar"),
            expected("host:5000/bar", "latest", None)
        );
        assert_eq!(
            parts("bar@sha256:00"),
            expected("bar", "latest", Some("sha256:00"))
        );
    }
}
