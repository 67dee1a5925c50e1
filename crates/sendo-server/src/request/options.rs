//! The options of a request: what `ListOptions`, `CreateOptions`, `UpdateOptions`,
//! `PatchOptions` and `DeleteOptions` hold, read from the query and checked.

use sendo_apimachinery::decode::FieldValidation;
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::selector::SelectorError;
use sendo_apimachinery::{FieldSelector, GroupKind, LabelSelector, Status, go_quote};

use crate::request::query::Query;

/// The options of a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListOptions {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) watch: bool,
    pub(crate) bookmarks: bool,
    pub(crate) resource_version: String,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) timeout_seconds: Option<i64>,
    pub(crate) limit: Option<usize>,
    pub(crate) continue_token: String,
    pub(crate) send_initial_events: Option<bool>,
}

/// How a list's resourceVersion is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

impl ListOptions {
    /// Reads and checks the options; `watch` for paths that always watch.
    pub(crate) fn parse(query: &Query, watch: bool) -> Result<Self, Status> {
        let timeout_seconds = number(query, "timeoutSeconds")?;
        let limit = number(query, "limit")?;
        let bad = |error: SelectorError| Status::bad_request(error.to_string());
        let options = ListOptions {
            labels: LabelSelector::parse(query.text("labelSelector")).map_err(bad)?,
            fields: FieldSelector::parse(query.text("fieldSelector")).map_err(bad)?,
            watch: watch || query.flag("watch"),
            bookmarks: query.flag("allowWatchBookmarks"),
            resource_version: query.text("resourceVersion").to_owned(),
            version_match: match query.text("resourceVersionMatch") {
                "Exact" => Some(VersionMatch::Exact),
                "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            timeout_seconds,
            limit: limit
                .and_then(|limit| usize::try_from(limit).ok())
                .filter(|limit| *limit > 0),
            continue_token: query.text("continue").to_owned(),
            send_initial_events: query.optional_flag("sendInitialEvents"),
        };
        let errors = if options.watch {
            options.check_watch(query.text("resourceVersionMatch"))
        } else {
            options.check_list(query.text("resourceVersionMatch"))
        };
        refuse("ListOptions", errors)?;
        Ok(options)
    }

    fn check_list(&self, matching: &str) -> Vec<Error> {
        let path = Path::new("resourceVersionMatch");
        let mut errors = Vec::new();
        if !matching.is_empty() {
            if self.resource_version.is_empty() {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(Error::forbidden(&path, why));
            }
            if !self.continue_token.is_empty() {
                let why = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(Error::forbidden(&path, why));
            }
            if self.version_match.is_none() {
                errors.push(Error::not_supported(
                    &path,
                    matching,
                    &["Exact", "NotOlderThan", ""],
                ));
            }
            if self.version_match == Some(VersionMatch::Exact) && self.resource_version == "0" {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(Error::forbidden(&path, why));
            }
        }
        if self.send_initial_events.is_some() {
            let path = Path::new("sendInitialEvents");
            errors.push(Error::forbidden(
                &path,
                "sendInitialEvents is forbidden for list",
            ));
        }
        errors
    }

    fn check_watch(&self, matching: &str) -> Vec<Error> {
        let path = Path::new("resourceVersionMatch");
        let not_older = self.version_match == Some(VersionMatch::NotOlderThan);
        let mut errors = Vec::new();
        if self.send_initial_events.is_some() && !not_older {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(Error::forbidden(&path, why));
        }
        if !matching.is_empty() {
            if self.send_initial_events.is_none() {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(Error::forbidden(&path, why));
            }
            if !not_older {
                errors.push(Error::not_supported(&path, matching, &["NotOlderThan"]));
            }
        }
        if !self.continue_token.is_empty() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(Error::forbidden(&path, why));
        }
        errors
    }
}

/// The options of a create, update or patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
    /// Whether an apply takes fields from others.
    pub(crate) force: bool,
}

/// Which write the options are of: the kinds of options differ in name and in what they allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Create,
    Update,
    Patch,
    Apply,
}

impl WriteOptions {
    pub(crate) fn parse(query: &Query, write: Write) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let manager = query.text("fieldManager");
        let force = query.optional_flag("force");
        if write == Write::Apply && manager.is_empty() {
            let path = Path::new("fieldManager");
            errors.push(Error::required(&path, "is required for apply patch"));
        }
        if write == Write::Patch && force.is_some() {
            let path = Path::new("force");
            let why = "may not be specified for non-apply patch";
            errors.push(Error::forbidden(&path, why));
        }
        check_manager(manager, &mut errors);
        let dry_run: Vec<String> = query.all("dryRun").map(str::to_owned).collect();
        check_dry_run(&dry_run, &mut errors);
        let validation = query.text("fieldValidation");
        let field_validation = FieldValidation::parse(validation).unwrap_or_else(|| {
            let supported = ["", "Ignore", "Strict", "Warn"];
            let path = Path::new("fieldValidation");
            errors.push(Error::not_supported(&path, validation, &supported));
            FieldValidation::Warn
        });
        let kind = match write {
            Write::Create => "CreateOptions",
            Write::Update => "UpdateOptions",
            Write::Patch | Write::Apply => "PatchOptions",
        };
        refuse(kind, errors)?;
        Ok(WriteOptions {
            dry_run: !dry_run.is_empty(),
            field_validation,
            force: force.unwrap_or(false),
        })
    }
}

/// A field manager has at most 128 bytes, all printable.
fn check_manager(manager: &str, errors: &mut Vec<Error>) {
    let path = Path::new("fieldManager");
    if manager.len() > 128 {
        errors.push(Error::too_long(&path, 128));
    }
    for (at, character) in manager.char_indices() {
        // A quotation of a printable character shows it as it is.
        let quoted = go_quote(character.encode_utf8(&mut [0; 4]));
        if !quoted.contains(character) {
            let why = format!(
                "invalid character U+{:04X} (at position {at})",
                character as u32
            );
            errors.push(Error::invalid(&path, manager, why));
        }
    }
}

pub(crate) fn check_dry_run(dry_run: &[String], errors: &mut Vec<Error>) {
    if dry_run.iter().any(|value| value != "All") {
        let path = Path::new("dryRun");
        errors.push(Error::not_supported(
            &path,
            serde_json::json!(dry_run),
            &["All"],
        ));
    }
}

fn number(query: &Query, name: &str) -> Result<Option<i64>, Status> {
    query.number(name).map_err(Status::bad_request)
}

/// Refuses options of a kind that have errors.
pub(crate) fn refuse(kind: &str, errors: Vec<Error>) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(
        &GroupKind::new("meta.k8s.io", kind),
        "",
        &errors,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(query: &str) -> Result<ListOptions, String> {
        ListOptions::parse(&Query::parse(query), false).map_err(|status| status.message)
    }

    fn write(query: &str, write: Write) -> Result<WriteOptions, String> {
        WriteOptions::parse(&Query::parse(query), write).map_err(|status| status.message)
    }

    #[test]
    fn a_version_match_needs_a_version() {
        assert_eq!(
            list("resourceVersionMatch=Exact").unwrap_err(),
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        );
        let fine = list("resourceVersionMatch=Exact&resourceVersion=5").unwrap();
        assert_eq!(fine.version_match, Some(VersionMatch::Exact));
    }

    #[test]
    fn initial_events_belong_to_watches_that_say_how_old() {
        assert!(list("sendInitialEvents=true").is_err());
        assert!(list("watch=1&sendInitialEvents=true").is_err());
        let fine =
            list("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan").unwrap();
        assert_eq!(fine.send_initial_events, Some(true));
    }

    #[test]
    fn a_limit_below_one_is_none() {
        assert_eq!(list("limit=-1").unwrap().limit, None);
        assert_eq!(list("limit=0").unwrap().limit, None);
        assert_eq!(list("limit=2").unwrap().limit, Some(2));
        assert_eq!(
            list("limit=x").unwrap_err(),
            "strconv.ParseInt: parsing \"x\": invalid syntax"
        );
    }

    #[test]
    fn write_options_are_refused_together() {
        let long = "m".repeat(129);
        let refused = write(
            &format!("fieldValidation=Nope&dryRun=x&fieldManager={long}"),
            Write::Create,
        );
        assert_eq!(
            refused.unwrap_err(),
            "CreateOptions.meta.k8s.io \"\" is invalid: [fieldManager: Too long: may not be more than 128 bytes, dryRun: Unsupported value: [\"x\"]: supported values: \"All\", fieldValidation: Unsupported value: \"Nope\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"]"
        );
        assert!(
            write("fieldManager=a%07b", Write::Update)
                .unwrap_err()
                .contains("U+0007 (at position 1)")
        );
        assert!(write("dryRun=All", Write::Update).unwrap().dry_run);
    }

    #[test]
    fn force_is_for_apply() {
        assert!(write("force=true", Write::Patch).is_err());
        assert!(write("force=false", Write::Patch).is_err());
        assert!(write("", Write::Patch).is_ok());
    }
}
