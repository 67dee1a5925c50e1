//! A JSON document as a flat list of nodes, in the order in which it was read.

use std::borrow::Cow;

use serde_json::{Number, Value};

/// How deep a value may nest that is kept.
///
/// Far more than any object needs; values are walked by recursion, which this bounds.
pub(super) const MAX_DEPTH: usize = 400;

/// A JSON document as it was read: members in their order, repeated ones too.
///
/// Its nodes lie in one list, each container before what it holds, so that a
/// document of any depth is read and dropped without recursion.
#[derive(Debug, Default)]
pub(super) struct Document<'a> {
    pub(super) nodes: Vec<Node<'a>>,
}

#[derive(Debug)]
pub(super) enum Node<'a> {
    Null,
    Bool(bool),
    /// A number as it was written.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    /// A list; `end` is the place behind its last node.
    List {
        end: usize,
    },
    /// An object: names (as `Text`) and values in turn.
    Map {
        end: usize,
    },
}

/// How the numbers of a value are written in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// As Go writes them: whole ones without a fraction.
    Plain,
    /// As they came: `1.0` is not written like a whole number, and is none to a reader.
    AsSent,
}

impl Document<'static> {
    /// The document of a value.
    pub(super) fn from_value(value: Value, numbers: Numbers) -> Self {
        let mut document = Document::default();
        document.push(value, numbers);
        document
    }

    fn push(&mut self, value: Value, numbers: Numbers) {
        let here = self.nodes.len();
        self.nodes.push(match &value {
            Value::Null => Node::Null,
            Value::Bool(value) => Node::Bool(*value),
            Value::Number(number) => Node::Number(Cow::Owned(match numbers {
                Numbers::Plain => crate::go_text::go_json(&value),
                Numbers::AsSent => number.to_string(),
            })),
            Value::String(_) | Value::Array(_) | Value::Object(_) => Node::Null,
        });
        match value {
            Value::String(text) => self.nodes[here] = Node::Text(Cow::Owned(text)),
            Value::Array(items) => {
                items.into_iter().for_each(|item| self.push(item, numbers));
                self.nodes[here] = Node::List {
                    end: self.nodes.len(),
                };
            }
            Value::Object(members) => {
                for (name, member) in members {
                    self.nodes.push(Node::Text(Cow::Owned(name)));
                    self.push(member, numbers);
                }
                self.nodes[here] = Node::Map {
                    end: self.nodes.len(),
                };
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

impl Document<'_> {
    pub(super) fn root(&self) -> Cursor<'_> {
        Cursor {
            nodes: &self.nodes,
            at: 0,
        }
    }
}

/// What a value is.
pub(super) enum ValueView<'d> {
    Null,
    Bool(bool),
    /// A number as it was written.
    Number(&'d str),
    Text(&'d str),
    List(Items<'d>),
    Map(Members<'d>),
}

impl ValueView<'_> {
    /// The name of the type in Go's messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            ValueView::Null => "null",
            ValueView::Bool(_) => "bool",
            ValueView::Number(_) => "number",
            ValueView::Text(_) => "string",
            ValueView::List(_) => "array",
            ValueView::Map(_) => "object",
        }
    }
}

/// A value of a [`Document`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'d> {
    nodes: &'d [Node<'d>],
    at: usize,
}

impl<'d> Cursor<'d> {
    pub(super) fn look(self) -> ValueView<'d> {
        match &self.nodes[self.at] {
            Node::Null => ValueView::Null,
            Node::Bool(value) => ValueView::Bool(*value),
            Node::Number(text) => ValueView::Number(text),
            Node::Text(text) => ValueView::Text(text),
            Node::List { end } => ValueView::List(self.items(*end)),
            Node::Map { end } => ValueView::Map(Members(self.items(*end))),
        }
    }

    fn items(self, end: usize) -> Items<'d> {
        Items {
            next: Cursor {
                at: self.at + 1,
                ..self
            },
            end,
        }
    }

    /// The place behind this value.
    fn end(self) -> usize {
        match self.nodes[self.at] {
            Node::List { end } | Node::Map { end } => end,
            _ => self.at + 1,
        }
    }
}

/// The values that a list holds.
pub(super) struct Items<'d> {
    next: Cursor<'d>,
    end: usize,
}

impl<'d> Iterator for Items<'d> {
    type Item = Cursor<'d>;

    fn next(&mut self) -> Option<Cursor<'d>> {
        let item = self.next;
        if item.at >= self.end {
            return None;
        }
        self.next.at = item.end();
        Some(item)
    }
}

/// The members that an object holds, in their order, repeated ones too.
pub(super) struct Members<'d>(Items<'d>);

impl<'d> Iterator for Members<'d> {
    type Item = (&'d str, Cursor<'d>);

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.0.next()?;
        let Node::Text(text) = &name.nodes[name.at] else {
            return None;
        };
        Some((text, self.0.next()?))
    }
}

/// A number as Go keeps one of unknown type: whole ones of 64 bits, else a float.
///
/// `None` if it is too large for a float.
pub(super) fn number(text: &str) -> Option<Number> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    Number::from_f64(text.parse().ok()?)
}
