//! Reads the committed facts about resources, a line each.

use super::{Column, QueryParameter, Resource, Scope, Storage, Subresource, default_columns};

const RESOURCES: &str = include_str!("../../facts/resources.txt");
const COLUMNS: &str = include_str!("../../facts/columns.txt");

/// All resources of the facts, in their order.
pub(super) fn read() -> Vec<Resource> {
    let mut all: Vec<Resource> = Vec::new();
    let (mut group, mut version, mut feature) = ("", "", None);
    for line in RESOURCES.lines().filter(|line| !line.starts_with('#')) {
        if let Some(group_version) = line.strip_prefix("group ") {
            let (named, needed) = match group_version.split_once(" feature=") {
                Some((named, feature)) => (named, Some(feature)),
                None => (group_version, None),
            };
            (group, version) = split(named);
            feature = needed;
        } else if let Some(subresource) = line.strip_prefix("  ") {
            let parent = all.last_mut().expect("a subresource follows its resource");
            parent
                .subresources
                .push(read_subresource(group, version, subresource));
        } else {
            let resource = read_resource(group, version, line.trim_start());
            all.push(Resource {
                feature: feature.map(str::to_owned),
                ..resource
            });
        }
    }
    read_columns(&mut all);
    all
}

fn read_resource(group: &str, version: &str, line: &str) -> Resource {
    let mut words = line.split(' ');
    let mut name = || words.next().unwrap_or_default().to_owned();
    let mut resource = Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: name(),
        singular: name(),
        kind: name(),
        scope: Scope::Cluster,
        verbs: Vec::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
        storage: None,
        returns_deleted: false,
        feature: None,
        columns: default_columns(),
    };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("namespaced", _) => resource.scope = Scope::Namespaced,
            ("returns-deleted", _) => resource.returns_deleted = true,
            ("short", names) => resource.short_names = list(names),
            ("categories", names) => resource.categories = list(names),
            ("verbs", names) => resource.verbs = list(names),
            ("hash", _) => {
                let (_, hash) = word.split_once('=').unwrap_or_default();
                resource.storage = Some(Storage {
                    group: group.to_owned(),
                    version: version.to_owned(),
                    hash: hash.to_owned(),
                });
            }
            ("stored", group_version) => {
                let (group, version) = split(group_version);
                let storage = resource.storage.as_mut().expect("the hash comes first");
                storage.group = group.to_owned();
                storage.version = version.to_owned();
            }
            _ => unreachable!("unknown fact of a resource: {word}"),
        }
    }
    resource
}

fn read_subresource(group: &str, version: &str, line: &str) -> Subresource {
    let mut words = line.split(' ');
    let mut name = || words.next().unwrap_or_default().to_owned();
    let mut subresource = Subresource {
        name: name(),
        kind: name(),
        group: group.to_owned(),
        version: version.to_owned(),
        verbs: Vec::new(),
        plain_text: false,
        query: Vec::new(),
    };
    for word in words {
        match word.split_once('=') {
            None if word == "text" => subresource.plain_text = true,
            Some(("query", parameters)) => {
                subresource.query = parameters.split(',').map(read_parameter).collect();
            }
            Some(("in", group_version)) => {
                let (group, version) = split(group_version);
                subresource.group = group.to_owned();
                subresource.version = version.to_owned();
            }
            Some(("verbs", verbs)) => subresource.verbs = list(verbs),
            _ => unreachable!("unknown fact of a subresource: {word}"),
        }
    }
    subresource
}

fn read_parameter(text: &str) -> QueryParameter {
    let (name, kind) = text.split_once(':').expect("a parameter has a type");
    QueryParameter {
        name: name.to_owned(),
        kind: kind.to_owned(),
    }
}

/// Columns come in the order of resources; those without keep the default.
fn read_columns(all: &mut [Resource]) {
    let mut resources = all.iter_mut();
    let mut columns = &mut Vec::new();
    for line in COLUMNS.lines().filter(|line| !line.starts_with('#')) {
        if let Some(line) = line.strip_prefix(' ') {
            columns.push(read_column(line));
        } else {
            let (group_version, plural) = line.split_once(' ').unwrap_or_default();
            let (group, version) = split(group_version);
            let resource = resources.find(|resource| {
                (&*resource.group, &*resource.version, &*resource.plural)
                    == (group, version, plural)
            });
            columns = &mut resource.expect("columns of a served resource").columns;
            columns.clear();
        }
    }
}

fn read_column(line: &str) -> Column {
    let mut parts = line.split('|');
    let mut part = || parts.next().unwrap_or_default().to_owned();
    Column {
        name: part(),
        kind: part(),
        format: part(),
        priority: part().parse().expect("a priority is a number"),
    }
}

fn split(group_version: &str) -> (&str, &str) {
    group_version.split_once('/').unwrap_or(("", group_version))
}

fn list(names: &str) -> Vec<String> {
    names.split(',').map(str::to_owned).collect()
}
