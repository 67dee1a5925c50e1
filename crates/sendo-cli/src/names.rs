//! Names of programs, groups, versions and kinds, checked for Kubernetes and for Rust.

use std::fmt;
use std::str::FromStr;

use sendo_apimachinery::names;

/// Why a name cannot be used, with what would do.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NameError(String);

/// The reserved words of all editions.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Names of crates and modules that a new module would hide, or that its code uses for other things.
const TAKEN_MODULES: &[&str] = &[
    "alloc",
    "core",
    "cx",
    "k8s_openapi",
    "kube",
    "main",
    "message",
    "schemars",
    "sendo",
    "sendo_test",
    "serde",
    "serde_json",
    "std",
    "test",
    "tokio",
    "controller",
    "webhook",
];

/// Types that the code of a new kind uses, and those of the prelude.
const TAKEN_KINDS: &[&str] = &[
    "Action",
    "Arc",
    "Box",
    "Clone",
    "Config",
    "Context",
    "Controller",
    "CustomResource",
    "Debug",
    "Default",
    "Deserialize",
    "Duration",
    "Eq",
    "Err",
    "JsonSchema",
    "Manager",
    "None",
    "ObjectExt",
    "Ok",
    "Option",
    "PartialEq",
    "Result",
    "Self",
    "Serialize",
    "Some",
    "String",
    "TestCluster",
    "Vec",
    "ConfigMap",
    "ObjectMeta",
];

/// Packages that a program depends on, and names that cargo keeps for itself.
const TAKEN_PROGRAMS: &[&str] = &[
    "alloc",
    "build",
    "core",
    "deps",
    "examples",
    "incremental",
    "k8s-openapi",
    "kube",
    "proc-macro",
    "schemars",
    "sendo",
    "sendo-test",
    "serde",
    "serde-json",
    "std",
    "test",
    "tokio",
];

/// The name of a program: of its package, and of what it leaves in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgramName(String);

impl ProgramName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// As Rust code names its library.
    pub(crate) fn library(&self) -> String {
        self.0.replace('-', "_")
    }

    /// The kind that such a program is probably for: `Bar` for `bar-controller`.
    pub(crate) fn likely_kind(&self) -> Option<Kind> {
        let endings = ["-controller", "-operator", "-manager"];
        let stem = endings.iter().find_map(|end| self.0.strip_suffix(end));
        upper_camel_case(stem.unwrap_or(&self.0)).parse().ok()
    }
}

impl FromStr for ProgramName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let refuse = |why: &str| {
            Err(NameError(format!(
                "`{name}` cannot be the name of a program: {why}"
            )))
        };
        if !names::dns1035_label(name).is_empty() {
            return refuse(
                "it names objects in the cluster, so it begins with a letter and has only a-z, 0-9 and `-`, at most 63 of them, such as `bar-controller`",
            );
        }
        if KEYWORDS.contains(&name) {
            return refuse("it is a keyword of Rust; add a word, as in `bar-controller`");
        }
        if TAKEN_PROGRAMS.contains(&name) {
            return refuse(
                "it is the name of something that programs depend on; add a word, as in `bar-controller`",
            );
        }
        Ok(ProgramName(name.to_owned()))
    }
}

/// The name of a kind, such as `Bar`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind(String);

impl Kind {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// A kind of Kubernetes' own.
    #[cfg(feature = "add")]
    pub(crate) fn built_in(name: &str) -> Self {
        Kind(name.to_owned())
    }

    /// The module with its code, also a name for variables: `bar`.
    pub(crate) fn module(&self) -> String {
        snake_case(&self.0)
    }

    /// With its article: `a Bar`, `an App`.
    pub(crate) fn with_article(&self) -> String {
        format!("{} {}", article(&self.0), self.0)
    }
}

/// `StorageBucket` for `storage-bucket`.
fn upper_camel_case(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric());
    let capital = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    words.map(capital).collect()
}

/// `storage_bucket` for `StorageBucket`, `http_route` for `HTTPRoute`.
fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut snake = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let ends_acronym = letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
        let begins_word = letter.is_ascii_uppercase()
            && before.is_some_and(|before| !before.is_ascii_uppercase() || ends_acronym);
        if begins_word {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// `a` or `an`.
pub(crate) fn article(word: &str) -> &'static str {
    match word.chars().next().map(|first| first.to_ascii_lowercase()) {
        Some('a' | 'e' | 'i' | 'o') => "an",
        _ => "a",
    }
}

impl FromStr for Kind {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let refuse = |why: String| {
            Err(NameError(format!(
                "`{name}` cannot be the name of a kind: {why}"
            )))
        };
        let is_camel = name.starts_with(|first: char| first.is_ascii_uppercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric())
            && name.len() <= 63;
        if !is_camel {
            let camel = upper_camel_case(name);
            let fits = camel != name && camel.parse::<Kind>().is_ok();
            let hint = if fits { &*camel } else { "Bar" };
            return refuse(format!(
                "it begins with a capital letter and has only letters and digits, at most 63, such as `{hint}`"
            ));
        }
        let module = snake_case(name);
        if TAKEN_KINDS.contains(&name) {
            return refuse(format!(
                "its own code would use another type of this name; add a word, as in `My{name}`"
            ));
        }
        if KEYWORDS.contains(&&*module) || TAKEN_MODULES.contains(&&*module) {
            return refuse(format!(
                "its module would be named `{module}`, which Rust code cannot; add a word, as in `My{name}`"
            ));
        }
        Ok(Kind(name.to_owned()))
    }
}

/// An API group, such as `example.dev`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group(String);

impl Group {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Group {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let refuse = |why: &str| {
            Err(NameError(format!(
                "`{name}` cannot be the group of a kind of your own: {why}"
            )))
        };
        if !names::dns1123_subdomain(name).is_empty() || !name.contains('.') {
            return refuse(
                "it is a domain in lower case with at least one dot, best one of yours, such as `example.dev`",
            );
        }
        // Follows Kubernetes 1.36, `apiextensions-apiserver/pkg/apis/apiextensions/validation`:
        // definitions in these groups need an annotation that names their approval.
        let is_protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
            name.strip_suffix(domain)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        });
        if is_protected {
            return refuse(
                "`k8s.io` and `kubernetes.io` belong to Kubernetes; take a domain of yours",
            );
        }
        Ok(Group(name.to_owned()))
    }
}

/// A version of a kind, such as `v1alpha1`; also the module of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version(String);

impl Version {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Version {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        if is_version(name) {
            return Ok(Version(name.to_owned()));
        }
        Err(NameError(format!(
            "`{name}` is no version of a kind: it is like `v1`, `v1beta1` or `v1alpha1`"
        )))
    }
}

fn is_version(name: &str) -> bool {
    let Some(rest) = name.strip_prefix('v') else {
        return false;
    };
    let is_number = |digits: &str| {
        !digits.starts_with('0')
            && (1..=9).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let stages = ["alpha", "beta"];
    match stages.iter().find_map(|stage| rest.split_once(stage)) {
        Some((major, minor)) => is_number(major) && is_number(minor),
        None => is_number(rest),
    }
}

/// A new kind as a command line names it: `example.dev/v1alpha1/Bar`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Api {
    pub(crate) group: Group,
    pub(crate) version: Version,
    pub(crate) kind: Kind,
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.group.0, self.version.0, self.kind.0)
    }
}

impl FromStr for Api {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let parts: Vec<&str> = text.split('/').collect();
        let [group, version, kind] = parts[..] else {
            return Err(NameError(format!(
                "`{text}` is not GROUP/VERSION/KIND, such as `example.dev/v1alpha1/Bar`"
            )));
        };
        Ok(Api {
            group: group.parse()?,
            version: version.parse()?,
            kind: kind.parse()?,
        })
    }
}

/// A kind that is there, as a command line names it: `apps/v1/Deployment`, or `v1/Secret`.
#[cfg(feature = "add")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KindRef {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

#[cfg(feature = "add")]
impl fmt::Display for KindRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => write!(f, "{}/{}", self.version, self.kind),
            group => write!(f, "{group}/{}/{}", self.version, self.kind),
        }
    }
}

#[cfg(feature = "add")]
impl FromStr for KindRef {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let parts: Vec<&str> = text.split('/').collect();
        let (group, version, kind) = match parts[..] {
            [version, kind] => ("", version, kind),
            [group, version, kind] => (group, version, kind),
            _ => {
                return Err(NameError(format!(
                    "`{text}` is not GROUP/VERSION/KIND, such as `apps/v1/Deployment`, or `v1/Secret`"
                )));
            }
        };
        let version: Version = version.parse()?;
        let kind_fits = kind.starts_with(|first: char| first.is_ascii_uppercase());
        if !kind_fits {
            return Err(NameError(format!(
                "`{kind}` is no kind, which begins with a capital letter, such as `Deployment`"
            )));
        }
        Ok(KindRef {
            group: group.to_owned(),
            version: version.0,
            kind: kind.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T: FromStr<Err = NameError> + fmt::Debug>(name: &str) -> String {
        name.parse::<T>().unwrap_err().to_string()
    }

    #[test]
    fn kinds_are_names_of_kubernetes_and_of_rust() {
        for kind in ["Bar", "HTTPRoute", "StorageBucket", "A1"] {
            kind.parse::<Kind>().unwrap();
        }
        for (kind, part) in [
            ("bar", "such as `Bar`"),
            ("storage-bucket", "such as `StorageBucket`"),
            ("", "such as `Bar`"),
            ("Bär", "letters and digits"),
            ("Match", "named `match`"),
            ("Sendo", "named `sendo`"),
            ("Self", "as in `MySelf`"),
            ("Context", "as in `MyContext`"),
            ("String", "as in `MyString`"),
        ] {
            let error = refused::<Kind>(kind);
            assert!(error.contains(part), "{kind}: {error}");
        }
        assert!("A".repeat(63).parse::<Kind>().is_ok());
        assert!("A".repeat(64).parse::<Kind>().is_err());
    }

    #[test]
    fn modules_follow_from_the_kind() {
        for (kind, module) in [
            ("Bar", "bar"),
            ("HTTPRoute", "http_route"),
            ("StorageBucket", "storage_bucket"),
            ("IPv6Range", "i_pv6_range"),
        ] {
            let parsed: Kind = kind.parse().unwrap();
            assert_eq!(parsed.module(), module);
        }
        assert_eq!("App".parse::<Kind>().unwrap().with_article(), "an App");
    }

    #[test]
    fn groups_are_domains_of_ones_own() {
        for group in ["example.dev", "a.b.c", "notk8s.io"] {
            group.parse::<Group>().unwrap();
        }
        for (group, part) in [
            ("apps", "at least one dot"),
            ("Example.dev", "lower case"),
            ("example_dev.io", "lower case"),
            ("batch.k8s.io", "belong to Kubernetes"),
            ("kubernetes.io", "belong to Kubernetes"),
        ] {
            let error = refused::<Group>(group);
            assert!(error.contains(part), "{group}: {error}");
        }
    }

    #[test]
    fn versions_are_those_that_kubernetes_orders() {
        for version in ["v1", "v2alpha1", "v10beta11"] {
            version.parse::<Version>().unwrap();
        }
        for version in [
            "1",
            "v0",
            "v1.0",
            "v1alpha",
            "v1gamma1",
            "valpha1",
            "v01",
            "v1alpha1beta1",
        ] {
            assert!(version.parse::<Version>().is_err(), "{version}");
        }
    }

    #[test]
    fn programs_are_packages_and_objects_of_a_cluster() {
        let name: ProgramName = "bar-controller".parse().unwrap();
        assert_eq!(name.library(), "bar_controller");
        assert_eq!(name.likely_kind().unwrap().as_str(), "Bar");
        let name: ProgramName = "storage-bucket".parse().unwrap();
        assert_eq!(name.likely_kind().unwrap().as_str(), "StorageBucket");
        assert!(
            "match-controller"
                .parse::<ProgramName>()
                .unwrap()
                .likely_kind()
                .is_none()
        );
        for (name, part) in [
            ("Bar", "only a-z"),
            ("1bar", "begins with a letter"),
            ("bar_controller", "only a-z"),
            ("match", "keyword"),
            ("sendo", "depend on"),
            ("test", "depend on"),
        ] {
            let error = refused::<ProgramName>(name);
            assert!(error.contains(part), "{name}: {error}");
        }
    }

    #[test]
    fn an_api_has_three_parts() {
        let api: Api = "example.dev/v1/Bar".parse().unwrap();
        assert_eq!(api.to_string(), "example.dev/v1/Bar");
        assert!(refused::<Api>("Bar").contains("example.dev/v1alpha1/Bar"));
        assert!(refused::<Api>("example.dev/Bar").contains("GROUP/VERSION/KIND"));
    }
}
