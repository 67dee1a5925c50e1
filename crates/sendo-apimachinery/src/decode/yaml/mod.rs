//! Reads YAML the way Kubernetes does: by the rules of YAML 1.1, turned to JSON.

mod octets;
mod scalar;

use serde_json::{Map, Value};
use serde_saphyr::granit_parser::{self, ErrorKind, Event, Options, Parser, ScanError};

use self::scalar::Scalar;
use super::BODY_LIMIT;
use super::document::MAX_DEPTH;

/// How deep YAML may nest.
const MAX_NESTING: usize = 250;

/// The most repeated keys that are reported.
const MAX_DUPLICATES: usize = 1000;

/// A document that was read.
#[derive(Debug, Default)]
pub(super) struct Yaml {
    /// The first document; null if there is none.
    pub(super) value: Value,
    /// Keys that were there twice, as `line 5: key "k" already set in map`.
    pub(super) duplicates: Vec<String>,
}

/// Reads the first document of a body.
///
/// What aliases expand to counts as if it had been sent: body and expansion have
/// [`BODY_LIMIT`] bytes together, and no more is ever built.
pub(super) fn read(body: &[u8]) -> Result<Yaml, String> {
    read_within(body, BODY_LIMIT)
}

fn read_within(body: &[u8], limit: usize) -> Result<Yaml, String> {
    if let Some(fault) = octets::fault(body) {
        return Err(format!("yaml: {fault}"));
    }
    let text = std::str::from_utf8(body).expect("all octets were looked at");
    let nodes = compose(text).map_err(|e| format!("yaml: {e}"))?;
    let mut builder = Builder {
        nodes: &nodes,
        room: limit.saturating_sub(body.len()),
        ..Builder::default()
    };
    let value = match nodes.is_empty() {
        true => Value::Null,
        false => builder.value(0)?,
    };
    Ok(Yaml {
        value,
        duplicates: builder.duplicates,
    })
}

/// A node of the document, in a list where each container comes before what it holds.
struct Node {
    kind: Kind,
    /// The place behind the node.
    end: usize,
    line: usize,
}

enum Kind {
    Scalar(Scalar),
    List,
    Map,
    /// Another node, by its place.
    Alias(usize),
}

/// Turns the first document's events into nodes.
fn compose(text: &str) -> Result<Vec<Node>, String> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.emit_unresolved_aliases = true;
    options.flow_nesting_limit = MAX_NESTING;
    options.block_nesting_limit = MAX_NESTING;
    let mut nodes: Vec<Node> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut anchors: std::collections::BTreeMap<usize, usize> = Default::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| fault(text, &error))?;
        let here = nodes.len();
        let kind = match event {
            Event::Scalar(text, style, anchor, tag) => {
                anchors.insert(anchor, here);
                Kind::Scalar(Scalar::new(text.into_owned(), style, tag.as_deref())?)
            }
            Event::SequenceStart(_, anchor, _) => {
                anchors.insert(anchor, here);
                open.push(here);
                Kind::List
            }
            Event::MappingStart(_, anchor, _) => {
                anchors.insert(anchor, here);
                open.push(here);
                Kind::Map
            }
            Event::Alias(anchor) => {
                let target = *anchors.get(&anchor).ok_or("unknown anchor referenced")?;
                if open.contains(&target) {
                    return Err("anchor value contains itself".to_owned());
                }
                Kind::Alias(target)
            }
            Event::UnresolvedAlias(name) => {
                return Err(format!("unknown anchor '{name}' referenced"));
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(container) = open.pop() {
                    nodes[container].end = here;
                }
                continue;
            }
            Event::DocumentEnd => break,
            _ => continue,
        };
        nodes.push(Node {
            kind,
            end: here + 1,
            line: span.start.line(),
        });
    }
    Ok(nodes)
}

/// Builds values of nodes.
#[derive(Default)]
struct Builder<'n> {
    nodes: &'n [Node],
    duplicates: Vec<String>,
    /// How many nodes were turned into values, and how many of them through aliases.
    built: usize,
    aliased: usize,
    alias_depth: usize,
    /// How many bytes of JSON aliases may still expand to.
    room: usize,
    /// How many containers are open, those that aliases lead to among them.
    depth: usize,
}

impl Builder<'_> {
    fn value(&mut self, at: usize) -> Result<Value, String> {
        self.count(at)?;
        match &self.nodes[at].kind {
            Kind::Scalar(scalar) => scalar.value(),
            Kind::Alias(target) => self.through_alias(|builder| builder.value(*target)),
            Kind::List => self.container(|builder| {
                let mut items = Vec::new();
                for item in builder.children(at) {
                    items.push(builder.value(item)?);
                }
                Ok(Value::Array(items))
            }),
            Kind::Map => self.container(|builder| {
                let mut members = Map::new();
                builder.members(at, &mut members)?;
                Ok(Value::Object(members))
            }),
        }
    }

    fn through_alias<T>(
        &mut self,
        build: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        self.alias_depth += 1;
        let built = build(self);
        self.alias_depth -= 1;
        built
    }

    /// Builds something that holds others. Aliases lead on from one such to the next, so
    /// that the nesting of the text says nothing of how deep this goes.
    fn container<T>(
        &mut self,
        build: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.depth == MAX_DEPTH {
            return Err("yaml: exceeded max depth".to_owned());
        }
        self.depth += 1;
        let built = build(self);
        self.depth -= 1;
        built
    }

    fn members(&mut self, at: usize, members: &mut Map<String, Value>) -> Result<(), String> {
        let children = self.children(at);
        for pair in children.chunks_exact(2) {
            let (key, value) = (pair[0], pair[1]);
            if let Kind::Scalar(scalar) = &self.nodes[key].kind
                && scalar.is_merge()
            {
                self.merge(value, members)?;
                continue;
            }
            if let Kind::Scalar(scalar) = &self.nodes[key].kind
                && scalar.is_null()
            {
                let value = match self.value(value)? {
                    Value::String(text) => crate::go_quote(&text),
                    other => crate::go_value(&other),
                };
                return Err(format!(
                    "unsupported map key of type: %!s(<nil>), key: <nil>, value: {value}"
                ));
            }
            let key = self.key(key)?;
            let line = self.nodes[value].line;
            let value = self.value(value)?;
            if members.contains_key(&key.text) && self.duplicates.len() < MAX_DUPLICATES {
                self.duplicates
                    .push(format!("line {line}: key {} already set in map", key.shown));
            }
            members.insert(key.text, value);
        }
        Ok(())
    }

    fn key(&mut self, at: usize) -> Result<scalar::Key, String> {
        self.count(at)?;
        match &self.nodes[at].kind {
            Kind::Scalar(scalar) => scalar.key(),
            Kind::Alias(target) => self.through_alias(|builder| builder.key(*target)),
            Kind::List | Kind::Map => Err("yaml: invalid map key".to_owned()),
        }
    }

    /// `<<`: takes over the members of one mapping, or of several, the first before the others.
    fn merge(&mut self, at: usize, members: &mut Map<String, Value>) -> Result<(), String> {
        let wants_map =
            || "yaml: map merge requires map or sequence of maps as the value".to_owned();
        let target = self.resolved(at);
        match self.nodes[target].kind {
            Kind::Map => self.members_through(at, members),
            Kind::List if target == at => {
                for item in self.children(at).into_iter().rev() {
                    let Kind::Map = self.nodes[self.resolved(item)].kind else {
                        return Err(wants_map());
                    };
                    self.members_through(item, members)?;
                }
                Ok(())
            }
            _ => Err(wants_map()),
        }
    }

    fn members_through(
        &mut self,
        at: usize,
        members: &mut Map<String, Value>,
    ) -> Result<(), String> {
        self.count(at)?;
        match &self.nodes[at].kind {
            Kind::Alias(target) => {
                self.through_alias(|builder| builder.members_through(*target, members))
            }
            _ => self.container(|builder| builder.members(at, members)),
        }
    }

    fn resolved(&self, at: usize) -> usize {
        match self.nodes[at].kind {
            Kind::Alias(target) => self.resolved(target),
            _ => at,
        }
    }

    fn children(&self, at: usize) -> Vec<usize> {
        let end = self.nodes[at].end;
        let mut children = Vec::new();
        let mut next = at + 1;
        while next < end {
            children.push(next);
            next = self.nodes[next].end;
        }
        children
    }

    /// Refuses documents that live on their aliases: the larger, the less of it may come
    /// from them, and no more than a body that says it all could have.
    ///
    /// The share is that of `decoder.unmarshal` in go.yaml.in/yaml/v2 (decode.go), which
    /// counts nodes and knows nothing of their size.
    fn count(&mut self, at: usize) -> Result<(), String> {
        const LOW: usize = 400_000;
        const HIGH: usize = 4_000_000;
        let excessive = || "yaml: document contains excessive aliasing".to_owned();
        self.built += 1;
        if self.alias_depth > 0 {
            self.aliased += 1;
            let size = self.nodes[at].kind.json_size();
            self.room = self.room.checked_sub(size).ok_or_else(excessive)?;
        }
        let allowed = match self.built {
            ..=LOW => 0.99,
            HIGH.. => 0.10,
            built => 0.99 - 0.89 * ((built - LOW) as f64 / (HIGH - LOW) as f64),
        };
        let share = self.aliased as f64 / self.built as f64;
        if self.aliased > 100 && self.built > 1000 && share > allowed {
            return Err(excessive());
        }
        Ok(())
    }
}

impl Kind {
    /// The bytes that a node has in JSON at least, without what it holds: quotes or brackets, and
    /// what parts it from the next one.
    fn json_size(&self) -> usize {
        const AROUND: usize = 3;
        match self {
            Kind::Scalar(scalar) => scalar.len() + AROUND,
            Kind::List | Kind::Map => AROUND,
            // What it stands for is counted itself.
            Kind::Alias(_) => 0,
        }
    }
}

/// A fault as Go's reader words it.
fn fault(text: &str, error: &ScanError) -> String {
    let (location, problem) = problem(text, error.kind());
    let from_zero = error.marker().line().saturating_sub(1);
    let lines = text.matches('\n').count();
    let next_token = || {
        let is_empty = |line: &str| matches!(line.trim_start().chars().next(), None | Some('#'));
        let after = text
            .lines()
            .enumerate()
            .skip(from_zero + 1)
            .find(|(_, line)| !is_empty(line));
        after.map_or(lines, |(number, _)| number)
    };
    let line = match location {
        ErrorLocation::Scanned if from_zero > 0 => from_zero + 1,
        ErrorLocation::Scanned => 0,
        ErrorLocation::Parsed if error.marker().index() < text.chars().count() => from_zero,
        // At the end of the text Go is at the beginning of a new line.
        ErrorLocation::Parsed | ErrorLocation::ParsedAtEnd => {
            lines + usize::from(!text.ends_with('\n'))
        }
        ErrorLocation::ScannedAtEnd if lines > 0 => lines + 1,
        ErrorLocation::ScannedAtEnd => 0,
        ErrorLocation::BeforeToken => next_token() + 1,
    };
    match line {
        0 => problem,
        line => format!("line {line}: {problem}"),
    }
}

/// Where Go's reader finds a fault: its two parts count lines differently.
enum ErrorLocation {
    Scanned,
    ScannedAtEnd,
    /// At the token behind the fault.
    BeforeToken,
    Parsed,
    ParsedAtEnd,
}

fn problem(text: &str, kind: &ErrorKind) -> (ErrorLocation, String) {
    use granit_parser::ErrorKind as E;
    const NO_CONTENT: &str = "did not find expected node content";
    const NO_LIST_END: &str = "did not find expected ',' or ']'";
    const NO_MAP_END: &str = "did not find expected ',' or '}'";
    let (location, problem) = match kind {
        E::UnclosedFlowCollection { .. } if text.trim_end().ends_with(['[', '{', ',']) => {
            (ErrorLocation::ParsedAtEnd, NO_CONTENT)
        }
        E::UnclosedFlowCollection { open: '[' } | E::UnexpectedEofFlowSequence => {
            (ErrorLocation::ParsedAtEnd, NO_LIST_END)
        }
        E::UnclosedFlowCollection { .. } | E::UnexpectedEofFlowMapping => {
            (ErrorLocation::ParsedAtEnd, NO_MAP_END)
        }
        E::ExpectedFlowSequenceSeparator | E::MismatchedFlowCollectionEnd { open: '[', .. } => {
            (ErrorLocation::Parsed, NO_LIST_END)
        }
        E::ExpectedFlowMappingSeparator | E::MismatchedFlowCollectionEnd { .. } => {
            (ErrorLocation::Parsed, NO_MAP_END)
        }
        E::UnexpectedEofImplicitFlowMapping
        | E::ExpectedNodeContent
        | E::MisplacedFlowCollectionEnd => (ErrorLocation::Parsed, NO_CONTENT),
        E::UnexpectedEofBlockSequence | E::ExpectedBlockSequenceEntry => {
            (ErrorLocation::Parsed, "did not find expected '-' indicator")
        }
        E::UnexpectedEofBlockMapping | E::ExpectedBlockMappingKey => {
            (ErrorLocation::Parsed, "did not find expected key")
        }
        E::ExpectedDocumentStart => (
            ErrorLocation::Parsed,
            "did not find expected <document start>",
        ),
        E::UndeclaredTagHandle => (ErrorLocation::Parsed, "found undefined tag handle"),
        E::MappingValueNotAllowed | E::InvalidColonPlacement => (
            ErrorLocation::Scanned,
            "mapping values are not allowed in this context",
        ),
        E::MappingKeyNotAllowed => (
            ErrorLocation::Scanned,
            "mapping keys are not allowed in this context",
        ),
        E::BlockSequenceEntryNotAllowed | E::BlockEntryInFlowCollection => (
            ErrorLocation::Scanned,
            "block sequence entries are not allowed in this context",
        ),
        E::SimpleKeyExpected | E::InvalidSimpleKey => {
            (ErrorLocation::BeforeToken, "could not find expected ':'")
        }
        E::UnexpectedCharacter { .. }
        | E::TabNotAllowed
        | E::TabInBlockIndentation
        | E::TabInIndentation
        | E::TabInPlainScalar => (
            ErrorLocation::Scanned,
            "found character that cannot start any token",
        ),
        E::UnclosedQuotedScalar | E::InvalidQuotedScalarIndent => (
            ErrorLocation::ScannedAtEnd,
            "found unexpected end of stream",
        ),
        E::DocumentIndicatorInQuotedScalar => (
            ErrorLocation::Scanned,
            "found unexpected document indicator",
        ),
        E::UnknownQuotedScalarEscape => (ErrorLocation::Scanned, "found unknown escape character"),
        E::InvalidQuotedScalarHexEscape => (
            ErrorLocation::Scanned,
            "did not find expected hexdecimal number",
        ),
        E::MissingAnchorOrAliasName => (
            ErrorLocation::Scanned,
            "did not find expected alphabetic or numeric character",
        ),
        E::InvalidBlockScalarHeader => (
            ErrorLocation::Scanned,
            "did not find expected comment or line break",
        ),
        other => return (ErrorLocation::Scanned, other.to_string()),
    };
    (location, problem.to_owned())
}

#[cfg(test)]
mod tests;
