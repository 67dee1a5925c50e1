//! Negotiates the form of an answer from the `Accept` header of its request.

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// What of a resource can be written in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protobuf {
    /// Everything but tables, as of built-in kinds.
    Objects,
    /// Only metadata, as of custom kinds, which have no messages.
    Metadata,
}

impl Protobuf {
    fn can_show(self, view: View) -> bool {
        match view {
            View::Table(_) => false,
            View::Whole => self == Protobuf::Objects,
            View::Metadata(_) | View::MetadataList(_) => true,
        }
    }
}

/// What there is to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// What can be written in protobuf.
    pub(crate) protobuf: Protobuf,
    /// Whether there are rows and columns.
    pub(crate) tables: bool,
}

impl Offer {
    /// Everything of this kind of resource.
    pub(crate) fn all(protobuf: Protobuf) -> Self {
        Offer {
            protobuf,
            tables: true,
        }
    }

    fn has(self, form: Form) -> bool {
        match (form.encoding, form.view) {
            (_, View::Table(_)) if !self.tables => false,
            (Encoding::Json | Encoding::Yaml, _) => true,
            (Encoding::Protobuf, view) => self.protobuf.can_show(view),
        }
    }
}

/// Whether media types are checked before all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// They must be named literally, or as `*/*`.
    Shut,
    /// As before custom resources and the documents of groups.
    Open,
}

/// What an answer shows of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum View {
    /// The object itself.
    Whole,
    /// Rows and columns for people.
    Table(MetaVersion),
    /// Only the metadata, of one object.
    Metadata(MetaVersion),
    /// Only the metadata, of the items of a list.
    MetadataList(MetaVersion),
}

/// The version of `meta.k8s.io` that a [`View`] is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MetaVersion {
    /// `meta.k8s.io/v1`
    V1,
    /// `meta.k8s.io/v1beta1`
    V1Beta1,
}

impl MetaVersion {
    /// The group and version, as `apiVersion` holds it.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The form agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// How it is written.
    pub(crate) encoding: Encoding,
    /// What it shows.
    pub(crate) view: View,
    /// Whether the media type requests line breaks.
    pub(crate) pretty: bool,
}

impl Form {
    /// The object itself in JSON.
    pub(crate) const JSON: Form = Form {
        encoding: Encoding::Json,
        view: View::Whole,
        pretty: false,
    };
}

/// Why no form could be agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No media type of the header is served here.
    MediaType,
    /// The media type is served, but not the transformation requested.
    Transformation,
}

/// One alternative of an `Accept` header.
struct Clause<'a> {
    kind: &'a str,
    subkind: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

/// Media types, in the order Kubernetes prefers them.
const WRITTEN: [(&str, Encoding); 3] = [
    ("json", Encoding::Json),
    ("yaml", Encoding::Yaml),
    ("vnd.kubernetes.protobuf", Encoding::Protobuf),
];
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The form of a resource's answer.
///
/// Two gates in a row, as in Kubernetes, each with a refusal of its own: the
/// media type must be named, then its parameters must be met.
///
/// What is not offered is passed over for the next that is accepted.
pub(crate) fn resource(accept: Option<&str>, gate: Gate, offer: Offer) -> Result<Form, Refusal> {
    agree(accept, gate, true, offer)
}

/// The form of a document, which is shown whole or not at all.
pub(crate) fn document(accept: Option<&str>, gate: Gate) -> Result<Form, Refusal> {
    agree(accept, gate, false, Offer::all(Protobuf::Objects))
}

fn agree(
    accept: Option<&str>,
    gate: Gate,
    transformations: bool,
    offer: Offer,
) -> Result<Form, Refusal> {
    let Some(accept) = accept.filter(|text| !text.is_empty()) else {
        return Ok(Form::JSON);
    };
    let served = ["application/json", "application/yaml", PROTOBUF];
    if gate == Gate::Shut && !names(accept, &served) {
        return Err(Refusal::MediaType);
    }
    first_met(accept, transformations, offer).ok_or(Refusal::Transformation)
}

/// Whether a header names one of these media types literally, or takes any.
pub(crate) fn names(accept: &str, served: &[&str]) -> bool {
    accept.split(',').any(|clause| {
        let media = clause.split(';').next().unwrap_or_default().trim();
        media == "*/*" || served.contains(&media)
    })
}

/// The form of a `Status`: what the client accepts if it can be met with no
/// transformation, else JSON.
pub(crate) fn status(accept: Option<&str>) -> Form {
    accept
        .and_then(|accept| first_met(accept, false, Offer::all(Protobuf::Objects)))
        .unwrap_or(Form::JSON)
}

fn first_met(accept: &str, transformations: bool, offer: Offer) -> Option<Form> {
    sorted_clauses(accept).iter().find_map(|clause| {
        WRITTEN.iter().find_map(|(subkind, encoding)| {
            let matches = match (clause.kind, clause.subkind) {
                ("*", "*") | ("application", "*") => true,
                ("application", other) => other == *subkind,
                _ => false,
            };
            let form = form(clause, *encoding, transformations).filter(|_| matches)?;
            offer.has(form).then_some(form)
        })
    })
}

fn form(clause: &Clause<'_>, encoding: Encoding, transformations: bool) -> Option<Form> {
    let parameter = |name| {
        clause
            .parameters
            .iter()
            .find(|(key, _)| *key == name)
            .map_or("", |(_, value)| value)
    };
    let view = match (parameter("as"), parameter("g"), parameter("v")) {
        ("", "", "") => View::Whole,
        (_, group, _) if !transformations || group != "meta.k8s.io" => return None,
        (kind, _, _) => {
            let version = match parameter("v") {
                "v1" => MetaVersion::V1,
                "v1beta1" => MetaVersion::V1Beta1,
                _ => return None,
            };
            match kind {
                "Table" => View::Table(version),
                "PartialObjectMetadata" => View::Metadata(version),
                "PartialObjectMetadataList" => View::MetadataList(version),
                _ => return None,
            }
        }
    };
    let pretty = parameter("pretty") == "1";
    Some(Form {
        encoding,
        view,
        pretty,
    })
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next()?;
    let (kind, subkind) = match media.split_once('/') {
        Some((kind, subkind)) => (kind.trim(), subkind.trim()),
        None if media == "*" => ("*", "*"),
        None => return None,
    };
    let mut found = Clause {
        kind,
        subkind,
        quality: 1.0,
        parameters: Vec::new(),
    };
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        if key == "q" {
            found.quality = value.parse().unwrap_or(1.0);
        } else {
            found.parameters.push((key, value));
        }
    }
    Some(found)
}

/// What the most wanted clause that names one of these `application/…` types
/// gets; the first of them if a clause takes any.
pub(crate) fn first_of<T: Copy>(accept: &str, served: &[(&str, T)]) -> Option<T> {
    sorted_clauses(accept).iter().find_map(|clause| {
        let takes = |wanted: &str, own: &str| wanted == own || wanted == "*";
        let mut met = served.iter().filter(|(subkind, _)| {
            takes(clause.kind, "application") && takes(clause.subkind, subkind)
        });
        met.next().map(|(_, own)| *own)
    })
}

/// The alternatives of a header, most wanted first.
fn sorted_clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(clause).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses
}

/// The form of a discovery document at the top.
///
/// Aggregated discovery is preferred to the plain lists of the same media type,
/// in whichever order they are accepted. `None` if the header accepts no
/// form that discovery has.
pub(crate) fn discovery(accept: Option<&str>) -> Option<Discovery> {
    let Some(accept) = accept.filter(|text| !text.is_empty()) else {
        return Some(Discovery::Legacy(Encoding::Json));
    };
    let found: Vec<Discovery> = sorted_clauses(accept)
        .into_iter()
        .filter_map(|clause| {
            let encoding = match (clause.kind, clause.subkind) {
                ("*", "*") | ("application", "*" | "json") => Encoding::Json,
                ("application", "yaml") => Encoding::Yaml,
                ("application", "vnd.kubernetes.protobuf") => Encoding::Protobuf,
                _ => return None,
            };
            let parameter = |name| {
                let mut parameters = clause.parameters.iter();
                parameters
                    .find(|(key, _)| *key == name)
                    .map_or("", |(_, value)| value)
            };
            match (parameter("g"), parameter("v"), parameter("as")) {
                ("", "", "") => Some(Discovery::Legacy(encoding)),
                ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList") => {
                    Some(Discovery::Aggregated(encoding))
                }
                _ => None,
            }
        })
        .collect();
    let aggregated = found
        .iter()
        .find(|form| matches!(form, Discovery::Aggregated(_)));
    aggregated.or(found.first()).copied()
}

/// The forms of a discovery document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discovery {
    /// One document with every group, version and resource.
    Aggregated(Encoding),
    /// The list of versions or groups.
    Legacy(Encoding),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built_in(accept: Option<&str>) -> Result<Form, Refusal> {
        resource(accept, Gate::Shut, Offer::all(Protobuf::Objects))
    }

    #[test]
    fn the_first_clause_that_can_be_met_wins() {
        let form = built_in(Some(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        ));
        assert_eq!(form.unwrap().view, View::Table(MetaVersion::V1));
        let form = built_in(Some(
            "application/json;as=Nope;v=v1;g=meta.k8s.io, application/yaml",
        ));
        assert_eq!(form.unwrap().encoding, Encoding::Yaml);
        let form = built_in(Some("application/json;q=0.2, application/yaml"));
        assert_eq!(form.unwrap().encoding, Encoding::Yaml);
    }

    #[test]
    fn protobuf_falls_back_to_json_where_there_are_no_messages() {
        let accept = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(built_in(Some(accept)).unwrap().encoding, Encoding::Protobuf);
        let custom = Offer::all(Protobuf::Metadata);
        assert_eq!(resource(Some(accept), Gate::Open, custom), Ok(Form::JSON));
        let metadata =
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let form = resource(Some(metadata), Gate::Open, custom).unwrap();
        assert_eq!(form.encoding, Encoding::Protobuf);
        let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(built_in(Some(table)), Err(Refusal::Transformation));
    }

    #[test]
    fn a_wildcard_subtype_is_no_media_type_of_ours() {
        assert_eq!(built_in(Some("application/*")), Err(Refusal::MediaType));
        assert_eq!(built_in(Some("*/*")), Ok(Form::JSON));
        assert_eq!(built_in(Some("")), Ok(Form::JSON));
        assert_eq!(built_in(None), Ok(Form::JSON));
        assert_eq!(built_in(Some("text/html")), Err(Refusal::MediaType));
        let custom = |accept| resource(Some(accept), Gate::Open, Offer::all(Protobuf::Metadata));
        assert_eq!(custom("application/*"), Ok(Form::JSON));
        assert_eq!(custom("text/html"), Err(Refusal::Transformation));
    }

    #[test]
    fn an_unknown_transformation_is_refused() {
        for accept in [
            "application/json;as=Nope;v=v1;g=meta.k8s.io",
            "application/json;as=Table;v=v9;g=meta.k8s.io",
            "application/json;as=Table;v=v1;g=other.k8s.io",
            "application/json;v=v1;g=meta.k8s.io",
        ] {
            assert_eq!(
                built_in(Some(accept)),
                Err(Refusal::Transformation),
                "{accept}"
            );
        }
    }

    #[test]
    fn errors_are_never_transformed() {
        assert_eq!(status(Some("application/yaml")).encoding, Encoding::Yaml);
        let table = "application/yaml;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(status(Some(table)), Form::JSON);
    }

    #[test]
    fn aggregated_discovery_needs_its_parameters() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        assert_eq!(
            discovery(Some(v2)),
            Some(Discovery::Aggregated(Encoding::Json))
        );
        assert_eq!(discovery(Some(old)), None);
        let fallback = format!("{old},application/json");
        assert_eq!(
            discovery(Some(&fallback)),
            Some(Discovery::Legacy(Encoding::Json))
        );
    }
}
