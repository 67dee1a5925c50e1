//! Whether the user has each right that the program declares, by SelfSubjectAccessReview.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use super::{Options, Report};
use crate::error::Result;
use crate::manager::Manager;
use crate::rights::{Right, Verb, Verbs};

/// How many reviews are asked for at once.
const AT_ONCE: usize = 8;

pub(super) async fn check(
    manager: &Manager,
    client: &Client,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let rights = manager.rights(&options.rights);
    let mut questions: Vec<Question> = rights.iter().flat_map(questions).collect();
    questions.sort();
    questions.dedup();
    let asked = questions.len();
    let answers = stream::iter(questions.into_iter().map(|question| question.ask(client)));
    let answers: Vec<(String, bool)> = answers.buffered(AT_ONCE).try_collect().await?;
    let missing: Vec<String> = answers
        .into_iter()
        .filter(|one| !one.1)
        .map(|one| one.0)
        .collect();
    if missing.is_empty() {
        report.passed.push(format!(
            "all {asked} rights that the program needs are there"
        ));
    }
    let fix = format!(
        "apply the roles that `{} manifests` prints, as somebody who has these rights; or ask as the program's account: `check --as system:serviceaccount:{}:{}`",
        manager.name(),
        options.namespace,
        manager.name()
    );
    for right in missing {
        report.error(&right, "it is not allowed", fix.clone());
    }
    Ok(())
}

/// One verb on one resource or path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    group: String,
    resource: String,
    verb: &'static str,
    namespace: Option<String>,
    name: Option<String>,
    path: Option<String>,
}

fn questions(right: &Right) -> Vec<Question> {
    let namespaces: Vec<Option<String>> = match right.namespaces.is_empty() {
        true => vec![None],
        false => right.namespaces.iter().cloned().map(Some).collect(),
    };
    // A creation by POST has no name to be narrowed by.
    let is_nameless = |verb: &str| {
        [Verb::Create, Verb::DeleteCollection]
            .iter()
            .any(|one| one.name() == verb)
    };
    let mut questions = Vec::new();
    for verb in right.verbs().names() {
        let names: Vec<Option<String>> = match right.names.is_empty() || is_nameless(verb) {
            true => vec![None],
            false => right.names.iter().cloned().map(Some).collect(),
        };
        for namespace in &namespaces {
            questions.extend(names.iter().map(|name| Question {
                group: right.group.clone(),
                resource: right.resource.clone(),
                verb,
                namespace: namespace.clone(),
                name: name.clone(),
                path: right.path.clone(),
            }));
        }
    }
    questions
}

impl Question {
    /// The right in words, and whether the user has it.
    async fn ask(self, client: &Client) -> Result<(String, bool)> {
        let spec = match &self.path {
            Some(path) => SelfSubjectAccessReviewSpec {
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(path.clone()),
                    verb: Some(self.verb.to_owned()),
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            None => SelfSubjectAccessReviewSpec {
                resource_attributes: Some(self.attributes()),
                ..SelfSubjectAccessReviewSpec::default()
            },
        };
        let review = SelfSubjectAccessReview {
            spec,
            ..SelfSubjectAccessReview::default()
        };
        let api = Api::<SelfSubjectAccessReview>::all(client.clone());
        let answer = api.create(&PostParams::default(), &review).await?;
        let is_allowed = answer.status.is_some_and(|status| status.allowed);
        Ok((self.to_right().to_string(), is_allowed))
    }

    fn attributes(&self) -> ResourceAttributes {
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (&*self.resource, None),
        };
        ResourceAttributes {
            group: Some(self.group.clone()),
            resource: Some(resource.to_owned()),
            subresource,
            verb: Some(self.verb.to_owned()),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..ResourceAttributes::default()
        }
    }

    fn to_right(&self) -> Right {
        let verbs = Verbs::of_name(self.verb);
        let mut right = match &self.path {
            Some(path) => Right::path(path, verbs),
            None => Right::resource(&self.group, &self.resource, verbs),
        };
        right.namespaces.extend(self.namespace.clone());
        right.names.extend(self.name.clone());
        right
    }
}
