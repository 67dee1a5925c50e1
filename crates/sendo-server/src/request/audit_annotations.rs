//! Collects what the steps of a request note for its audit event.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/audit/context.go`: `AddAuditAnnotation`, `addAuditAnnotationLocked`

use std::collections::BTreeMap;

/// The audit annotations of one request.
#[derive(Debug, Default)]
pub(crate) struct AuditAnnotations(BTreeMap<String, String>);

impl AuditAnnotations {
    /// Adds an annotation. The first value of a key stays.
    pub(crate) fn add(&mut self, key: String, value: String) {
        let first = self.0.entry(key);
        if let std::collections::btree_map::Entry::Occupied(first) = &first
            && first.get() != &value
        {
            tracing::warn!(
                key = first.key(),
                first = first.get(),
                value,
                "an audit annotation that has a value is not set again"
            );
        }
        first.or_insert(value);
    }

    /// The annotations so far.
    pub(crate) fn all(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_an_annotation_stays() {
        let mut annotations = AuditAnnotations::default();
        for (key, value) in [("a/b", "1"), ("a/b", "2"), ("a/c", "3")] {
            annotations.add(key.to_owned(), value.to_owned());
        }
        let all: Vec<_> = annotations.all().iter().collect();
        let expected = [("a/b", "1"), ("a/c", "3")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(all, expected.each_ref().map(|(key, value)| (key, value)));
    }
}
