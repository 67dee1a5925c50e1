//! The objects as a kustomization: `base` as they are printed, and above it the values that
//! installations differ in: image, replicas, namespace.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::files::Files;
use super::model::Model;
use super::yaml::{self, Comments};
use super::{helm, wanted};

/// Stands for the namespace while it is looked for; nothing else can contain it.
const NAMESPACE: &str = "\u{e000}namespace\u{e003}";

/// Where the values are that others replace; it is not applied itself.
const SETTINGS: &str = "settings.yaml";

pub(super) fn files(model: &Model<'_>) -> Files {
    let mut files = Files::new(&model.manager.name);
    let mut resources = Vec::new();
    for item in wanted(model) {
        let name = item.file.name();
        files.add_document(
            &format!("base/{name}"),
            &yaml::document(&item.object, &item.comments),
        );
        if resources.last() != Some(&name) {
            resources.push(name);
        }
    }
    let base = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    });
    files.add(
        "base/kustomization.yaml",
        &yaml::document(&base, &Comments::new()),
    );
    files.add(SETTINGS, &settings(model));
    files.add("kustomization.yaml", &values(model));
    files
}

fn settings(model: &Model<'_>) -> String {
    let settings = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "settings",
            "annotations": {"config.kubernetes.io/local-config": "true"},
        },
        "data": {"namespace": model.namespace},
    });
    let comments = Comments::from([
        (
            String::new(),
            "Read by kustomization.yaml only: it is not applied to a cluster.".to_owned(),
        ),
        (
            "/data/namespace".to_owned(),
            "Where the program runs.".to_owned(),
        ),
    ]);
    yaml::document(&settings, &comments)
}

/// The kustomization with the values.
fn values(model: &Model<'_>) -> String {
    let image = helm::Image::parse(&model.image);
    let mut new_image = json!({"name": image.repository, "newName": image.repository});
    match &image.digest {
        Some(digest) => new_image["digest"] = json!(digest),
        None => new_image["newTag"] = json!(image.tag),
    }
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["base", SETTINGS],
        "images": [new_image],
        "replicas": [{"name": model.name, "count": model.replicas}],
        "replacements": replacements(model),
    });
    let comments = Comments::from([
        (
            String::new(),
            "For values of your own, write a kustomization with this folder among its resources."
                .to_owned(),
        ),
        (
            "/replacements".to_owned(),
            format!("Everything that names the namespace of the program, from {SETTINGS}."),
        ),
    ]);
    yaml::document(&kustomization, &comments)
}

/// Where the namespace stands: as a whole value, or as a part between separators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Whole,
    Part { separator: char, index: usize },
}

/// The places of objects of a kind and name, by how the namespace stands there.
type Targets = BTreeMap<Place, BTreeMap<(String, String), Vec<String>>>;

fn replacements(model: &Model<'_>) -> Value {
    let marked = Model {
        namespace: NAMESPACE.to_owned(),
        labels: BTreeMap::new(),
        ..Model::filled_in(model.manager, model.options)
    };
    let mut targets = Targets::new();
    for item in wanted(&marked) {
        // The Namespace itself is found by the name that it has in `base`.
        let name = item.name().replace(NAMESPACE, &model.namespace);
        let object = (item.kind().to_owned(), name);
        let mut found = Vec::new();
        find(&item.object, "", &mut found);
        for (place, path) in found {
            let paths = targets
                .entry(place)
                .or_default()
                .entry(object.clone())
                .or_default();
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    let replacements = targets.into_iter().map(|(place, objects)| {
        let targets = objects.into_iter().map(|((kind, name), paths)| {
            let mut target = json!({"select": {"kind": kind, "name": name}, "fieldPaths": paths});
            if let Place::Part { separator, index } = place {
                target["options"] = json!({"delimiter": separator.to_string(), "index": index});
            }
            target
        });
        json!({
            "source": {"kind": "ConfigMap", "name": "settings", "fieldPath": "data.namespace"},
            "targets": targets.collect::<Vec<_>>(),
        })
    });
    replacements.collect()
}

/// The fields that name the namespace, by their paths in the words of kustomize.
fn find(value: &Value, path: &str, found: &mut Vec<(Place, String)>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort();
            for name in names {
                let quoted = match name.contains('.') {
                    true => format!("[{name}]"),
                    false => name.clone(),
                };
                find(&fields[name], &below(&quoted), found);
            }
        }
        Value::Array(elements) => {
            for (at, element) in elements.iter().enumerate() {
                find(element, &below(&at.to_string()), found);
            }
        }
        Value::String(text) if text == NAMESPACE => found.push((Place::Whole, path.to_owned())),
        Value::String(text) if text.contains(NAMESPACE) => {
            let separators = ['/', '.'].into_iter();
            let parts = separators.filter_map(|separator| {
                let mut parts = text.split(separator);
                let index = parts.position(|part| part == NAMESPACE)?;
                Some(Place::Part { separator, index })
            });
            found.extend(parts.take(1).map(|place| (place, path.to_owned())));
        }
        _ => {}
    }
}
