//! What Go calls fields and their types where their names in JSON do not say.
//!
//! Only refusals need it, so the text is searched rather than kept in memory.

const NAMES: &str = include_str!("../../facts/go-names.txt");

/// How Go shows a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoName {
    /// The structs the field is embedded through, joined by dots.
    pub embedded: Option<&'static str>,
    /// Its type, where that has a name of its own and is no struct.
    pub go_type: Option<&'static str>,
}

impl GoName {
    /// The names of `field` in the type of this full name; none for types that are not built in.
    pub fn for_field(type_name: &str, field: &str) -> Self {
        Self::find(type_name, field).unwrap_or_default()
    }

    fn find(type_name: &str, field: &str) -> Option<Self> {
        let (package, name) = type_name.rsplit_once('.')?;
        let package = format!("package {package}");
        let types = NAMES.lines().skip_while(|line| *line != package).skip(1);
        let mut types = types.take_while(|line| !line.starts_with("package "));
        types.find(|line| line.strip_prefix("type ") == Some(name))?;
        let mut fields = types.map_while(|line| line.strip_prefix(' '));
        let words = fields.find_map(|line| line.strip_prefix(field)?.strip_prefix(' '))?;
        let (embedded, go_type) = words.split_once(' ')?;
        let named = |word: &'static str| (word != "-").then_some(word);
        Some(Self {
            embedded: named(embedded),
            go_type: named(go_type),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_show_what_they_are_embedded_through_and_their_named_type() {
        let name = GoName::for_field(
            "io.k8s.api.admissionregistration.v1.NamedRuleWithOperations",
            "scope",
        );
        assert_eq!(name.embedded, Some("RuleWithOperations.Rule"));
        assert_eq!(name.go_type, Some("v1.ScopeType"));
        let name = GoName::for_field("io.k8s.api.core.v1.Volume", "name");
        assert_eq!(name, GoName::default());
        assert_eq!(
            GoName::for_field("com.example.Boat", "name"),
            GoName::default()
        );
    }
}
