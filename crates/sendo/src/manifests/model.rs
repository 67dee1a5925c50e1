//! The typed model: the objects of a deployment, from which every format is rendered.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::Resource;
use serde::Serialize;
use serde_json::Value;

use super::options::{Extra, Options};
use super::yaml::{self, Comments};
use super::{monitoring, network, rbac, webhooks, workload};
use crate::manager::{Manager, RightsOptions, ServedWebhooks};
use crate::webhook::Reached;

/// Where an object belongs when it is written to a folder. In the order in which a cluster needs
/// them, as `kubectl apply --filename FOLDER` applies files by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum File {
    Crds,
    Rbac,
    UserRoles,
    Deployment,
    Webhooks,
    Monitoring,
    NetworkPolicy,
}

impl File {
    pub(super) fn name(self) -> &'static str {
        match self {
            File::Crds => "10-crds.yaml",
            File::Rbac => "20-rbac.yaml",
            File::UserRoles => "30-user-roles.yaml",
            File::Deployment => "40-deployment.yaml",
            File::Webhooks => "50-webhooks.yaml",
            File::Monitoring => "60-monitoring.yaml",
            File::NetworkPolicy => "70-network-policy.yaml",
        }
    }
}

/// An object, and what is said about it.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) file: File,
    pub(super) object: Value,
    pub(super) comments: Comments,
    /// It is only there when it is asked for.
    pub(super) extra: Option<Extra>,
}

impl Item {
    pub(super) fn new<K: Resource<DynamicType = ()> + Serialize>(file: File, object: &K) -> Self {
        let mut value = serde_json::to_value(object).unwrap_or_default();
        // An empty status, as that of a CustomResourceDefinition, is nothing to apply.
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
            fields.insert("apiVersion".to_owned(), K::api_version(&()).into());
            fields.insert("kind".to_owned(), K::kind(&()).into());
        }
        Item::untyped(file, value)
    }

    /// An object of a kind that has no type here.
    pub(super) fn untyped(file: File, object: Value) -> Self {
        Item {
            file,
            object,
            comments: Comments::new(),
            extra: None,
        }
    }

    pub(super) fn comment(self, text: &str) -> Self {
        self.note("", text)
    }

    /// A comment above the field at a JSON pointer.
    pub(super) fn note(mut self, pointer: &str, text: &str) -> Self {
        self.comments.insert(pointer.to_owned(), text.to_owned());
        self
    }

    pub(super) fn extra(mut self, extra: Extra) -> Self {
        self.extra = Some(extra);
        self
    }

    pub(super) fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }
}

/// What the objects of a deployment are made of. A format with values to be filled in later has
/// its expressions here in their place.
pub(super) struct Model<'a> {
    pub(super) manager: &'a Manager,
    pub(super) options: &'a Options,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) image: String,
    pub(super) replicas: Value,
    /// Labels beside the name of the program.
    pub(super) labels: BTreeMap<String, String>,
    pub(super) template: Option<Template>,
}

/// The names of the values of a Helm chart, where these replace what is fixed otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Template;

impl<'a> Model<'a> {
    /// With the values that are given.
    pub(super) fn filled_in(manager: &'a Manager, options: &'a Options) -> Self {
        Model {
            manager,
            options,
            name: options.name.clone(),
            namespace: options.namespace.clone(),
            image: options.image.clone(),
            replicas: options.replicas.into(),
            labels: BTreeMap::new(),
            template: None,
        }
    }

    /// With the expressions of a Helm chart.
    pub(super) fn of_chart(manager: &'a Manager, options: &'a Options) -> Self {
        let labels = [
            ("app.kubernetes.io/instance", ".Release.Name"),
            ("app.kubernetes.io/managed-by", ".Release.Service"),
        ];
        let labels = labels.map(|(label, value)| (label.to_owned(), yaml::expression(value)));
        Model {
            manager,
            options,
            name: yaml::expression(".Values.name"),
            namespace: yaml::expression(".Release.Namespace"),
            image: [
                yaml::expression(".Values.image.repository"),
                yaml::expression("if .Values.image.digest"),
                format!("@{}", yaml::expression(".Values.image.digest")),
                yaml::expression("else"),
                format!(":{}", yaml::expression(".Values.image.tag")),
                yaml::expression("end"),
            ]
            .concat(),
            replicas: yaml::scalar(".Values.replicas"),
            labels: labels.into(),
            template: Some(Template),
        }
    }

    /// The labels by which the pods are found.
    pub(super) fn pod_labels(&self) -> BTreeMap<String, String> {
        [("app.kubernetes.io/name".to_owned(), self.name.clone())].into()
    }

    pub(super) fn pod_selector(&self) -> LabelSelector {
        LabelSelector {
            match_labels: Some(self.pod_labels()),
            ..LabelSelector::default()
        }
    }

    /// The metadata of an object of no namespace.
    pub(super) fn named(&self, name: &str) -> ObjectMeta {
        let mut labels = self.pod_labels();
        labels.extend(self.labels.clone());
        ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        }
    }

    pub(super) fn named_in(&self, name: &str, namespace: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some(namespace.to_owned()),
            ..self.named(name)
        }
    }

    /// The metadata of an object in the program's namespace.
    pub(super) fn named_here(&self, name: &str) -> ObjectMeta {
        self.named_in(name, &self.namespace)
    }

    pub(super) fn rights_options(&self) -> RightsOptions {
        RightsOptions {
            namespaces: self.options.namespaces.clone(),
            lease: Some((self.namespace.clone(), self.manager.name.clone())),
            metrics_secure: true,
            install_kinds: self.options.install_kinds,
            webhooks: Some(ServedWebhooks {
                reached: Reached::by_service_of(&self.manager.name, &self.namespace),
                certificates: self.options.certificates,
            }),
            ..RightsOptions::default()
        }
    }

    /// All objects that there can be, in the order of their files.
    pub(super) fn items(&self) -> Vec<Item> {
        let definitions = self.manager.definitions_in(&self.namespace);
        let rights = self.manager.rights(&self.rights_options());
        let mut items = webhooks::definitions(self, &definitions);
        items.extend(workload::account(self));
        items.extend(rbac::of_program(self, rights));
        items.extend(rbac::of_users(self, &definitions));
        items.push(rbac::of_metrics(self));
        items.extend(workload::program(self));
        items.push(network::metrics_service(self));
        items.extend(webhooks::objects(self));
        items.extend(monitoring::objects(self));
        items.push(network::policy(self));
        items.sort_by_key(|item| item.file);
        items
    }
}
