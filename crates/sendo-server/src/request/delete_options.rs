//! Parses and validates the options of a deletion.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go`: `DeleteOptions`
//! - `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go`: `ValidateDeleteOptions`

use sendo_apimachinery::Status;
use sendo_apimachinery::field::{Error as FieldError, Path};
use serde::Deserialize;

use super::query::Query;

/// The options of a deletion.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) preconditions: Option<Preconditions>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation_policy: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) dry_run: Vec<String>,
}

/// What must hold for a deletion to take place.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

impl Preconditions {
    /// Those of a query. In that of a collection, the version is that of the list too.
    fn from_query(query: &Query) -> Option<Self> {
        let given = |name: &str| Some(query.text(name).to_owned()).filter(|text| !text.is_empty());
        let wanted = Preconditions {
            uid: given("uid"),
            resource_version: given("resourceVersion"),
        };
        (wanted.uid.is_some() || wanted.resource_version.is_some()).then_some(wanted)
    }
}

fn nullable<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl DeleteOptions {
    /// The options in a query, for a request without a body.
    pub(crate) fn from_query(query: &Query) -> Result<Self, Status> {
        Ok(DeleteOptions {
            grace_period_seconds: query
                .number("gracePeriodSeconds")
                .map_err(Status::bad_request)?,
            preconditions: Preconditions::from_query(query),
            orphan_dependents: query.optional_flag("orphanDependents"),
            propagation_policy: query.first("propagationPolicy").map(str::to_owned),
            dry_run: query.all("dryRun").map(str::to_owned).collect(),
        })
    }

    pub(crate) fn check(&self) -> Result<(), Status> {
        let mut errors = Vec::new();
        let path = Path::new("propagationPolicy");
        if let Some(policy) = &self.propagation_policy {
            if self.orphan_dependents.is_some() {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(FieldError::invalid(&path, policy.as_str(), why));
            }
            if !["Foreground", "Background", "Orphan"].contains(&policy.as_str()) {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported(
                    &path,
                    policy.as_str(),
                    &supported,
                ));
            }
        }
        super::options::check_dry_run(&self.dry_run, &mut errors);
        super::options::refuse("DeleteOptions", errors)
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }
}
