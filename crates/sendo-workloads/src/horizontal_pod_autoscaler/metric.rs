//! What one metric of an autoscaler asks for, and what its status says of it.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/podautoscaler/horizontal.go`: `computeReplicasForMetric`,
//!   `computeStatusForObjectMetric`, `computeStatusForPodsMetric`,
//!   `computeStatusForResourceMetricGeneric`, `computeStatusForExternalMetric`, `buildQuantity`

use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricStatus, ExternalMetricSource, ExternalMetricStatus, MetricSpec,
    MetricStatus, MetricTarget, MetricValueStatus, ObjectMetricSource, ObjectMetricStatus,
    PodsMetricSource, PodsMetricStatus, ResourceMetricStatus,
};
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use sendo::cache::{Namespaces, Selection};
use sendo::{Context, Selector};
use sendo_apimachinery::Quantity;
use sendo_apimachinery::quantity::Format;

use super::metrics_api;
use super::replicas::{self, NO_PODS, Proposal, Tolerance};
use super::requests;
use super::target::Kinds;
use crate::go_print;
use crate::pods::Pod;

/// The pods of a target, and how many there should be and are.
pub(super) struct Scaled<'a> {
    pub(super) namespace: &'a str,
    pub(super) selector: &'a Selector,
    /// The replicas in the spec.
    pub(super) wanted: i32,
    /// The replicas in the status.
    pub(super) counted: i32,
    pub(super) tolerance: Tolerance,
    pub(super) kinds: &'a Kinds,
    pub(super) cx: &'a Context,
}

/// What a metric asks for.
pub(super) struct Computed {
    pub(super) replicas: i32,
    /// The metric, as reasons and events name it.
    pub(super) name: String,
    pub(super) status: MetricStatus,
}

/// Why a metric asks for nothing.
pub(super) struct Failed {
    /// The reason of the condition.
    pub(super) reason: &'static str,
    /// The cause.
    pub(super) cause: String,
    /// The cause with the metric, for an error that sums up.
    pub(super) error: String,
    pub(super) is_spec: bool,
}

impl Scaled<'_> {
    /// Computes what `spec` asks for.
    pub(super) async fn compute(&self, spec: &MetricSpec) -> Result<Computed, Failed> {
        let (computed, reason, what) = match (spec.type_.as_str(), spec) {
            (
                "Resource",
                MetricSpec {
                    resource: Some(source),
                    ..
                },
            ) => (
                self.resource(&source.name, None, &source.target).await.map(
                    |(replicas, name, current)| Computed {
                        replicas,
                        name,
                        status: MetricStatus {
                            type_: "Resource".to_owned(),
                            resource: Some(ResourceMetricStatus {
                                name: source.name.clone(),
                                current,
                            }),
                            ..MetricStatus::default()
                        },
                    },
                ),
                "FailedGetResourceMetric",
                format!("{} resource", source.name),
            ),
            (
                "ContainerResource",
                MetricSpec {
                    container_resource: Some(source),
                    ..
                },
            ) => (
                self.resource(&source.name, Some(&source.container), &source.target)
                    .await
                    .map(|(replicas, name, current)| Computed {
                        replicas,
                        name,
                        status: MetricStatus {
                            type_: "ContainerResource".to_owned(),
                            container_resource: Some(ContainerResourceMetricStatus {
                                name: source.name.clone(),
                                container: source.container.clone(),
                                current,
                            }),
                            ..MetricStatus::default()
                        },
                    }),
                "FailedGetContainerResourceMetric",
                format!("{} container", source.container),
            ),
            (
                "Pods",
                MetricSpec {
                    pods: Some(source), ..
                },
            ) => (
                self.pods_metric(source).await,
                "FailedGetPodsMetric",
                "pods".to_owned(),
            ),
            (
                "Object",
                MetricSpec {
                    object: Some(source),
                    ..
                },
            ) => (
                self.object(source).await,
                "FailedGetObjectMetric",
                "object".to_owned(),
            ),
            (
                "External",
                MetricSpec {
                    external: Some(source),
                    ..
                },
            ) => (
                self.external(source).await,
                "FailedGetExternalMetric",
                format!("{} external", source.metric.name),
            ),
            (type_, _) => {
                let cause = format!("unknown metric source type {type_:?}");
                return Err(Failed {
                    reason: "InvalidMetricSourceType",
                    error: cause.clone(),
                    cause,
                    is_spec: true,
                });
            }
        };
        let metric = match spec.type_.as_str() {
            "Resource" => "resource metric",
            _ => "metric",
        };
        let what = what.strip_suffix(" resource").unwrap_or(&what);
        computed.map_err(|cause| Failed {
            reason,
            error: format!("failed to get {what} {metric} value: {cause}"),
            cause,
            is_spec: false,
        })
    }

    /// The cached pods of the target; an error if there are none.
    fn pods(&self) -> Result<Vec<Arc<Pod>>, String> {
        let pods = self.cx.list::<Pod>().in_namespace(self.namespace);
        let pods: Vec<_> = pods.labels(self.selector).iter().collect();
        match pods.is_empty() {
            true => Err(NO_PODS.to_owned()),
            false => Ok(pods),
        }
    }

    /// What the pods request, by name. The cache has no requests: few programs ask for them.
    async fn requests(
        &self,
        resource: &str,
        container: Option<&str>,
    ) -> Result<std::collections::BTreeMap<String, i64>, String> {
        let selection = Selection {
            labels: self.selector.clone(),
            namespaces: Namespaces::one(self.namespace),
            ..Selection::default()
        };
        let pods = self.cx.live().list::<v1::Pod>(&selection).await;
        let pods = pods.map_err(|error| {
            format!("unable to get pods while calculating replica count: {error}")
        })?;
        requests::of_pods(&pods, resource, container)
    }

    async fn resource(
        &self,
        resource: &str,
        container: Option<&str>,
        target: &MetricTarget,
    ) -> Result<(i32, String, MetricValueStatus), String> {
        let format = match resource {
            "memory" => Format::Binary,
            _ => Format::Decimal,
        };
        let proposed = self.resource_replicas(resource, container, target).await;
        let (proposal, name) = match (&target.average_value, target.average_utilization) {
            (Some(_), _) => (
                proposed.map_err(|error| format!("failed to get {resource} usage: {error}"))?,
                format!("{resource} resource"),
            ),
            (None, Some(_)) => {
                let of = if container.is_some() {
                    " container"
                } else {
                    ""
                };
                (
                    proposed.map_err(|error| {
                        format!("failed to get {resource} utilization: {error}")
                    })?,
                    format!("{resource}{of} resource utilization (percentage of request)"),
                )
            }
            (None, None) => {
                return Err("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set".to_owned());
            }
        };
        let current = MetricValueStatus {
            average_utilization: proposal.utilization,
            average_value: Some(amount(proposal.usage, format)),
            value: None,
        };
        Ok((proposal.replicas, name, current))
    }

    async fn resource_replicas(
        &self,
        resource: &str,
        container: Option<&str>,
        target: &MetricTarget,
    ) -> Result<Proposal, String> {
        let cx = self.cx;
        let samples =
            metrics_api::resource(cx, resource, self.namespace, self.selector, container).await;
        let samples = samples
            .map_err(|error| format!("unable to get metrics for resource {resource}: {error}"))?;
        let pods = self.pods()?;
        let requests;
        let target = match (&target.average_value, target.average_utilization) {
            (None, Some(percent)) => {
                requests = self.requests(resource, container).await?;
                replicas::Target::Utilization(percent, &requests)
            }
            (value, _) => replicas::Target::Average(value.as_ref().map_or(0, milli)),
        };
        let is_cpu = resource == "cpu";
        let (current, tolerance) = (self.wanted, self.tolerance);
        replicas::for_pods(&pods, samples, current, target, is_cpu, tolerance, cx.now())
    }

    async fn pods_metric(&self, source: &PodsMetricSource) -> Result<Computed, String> {
        let cx = self.cx;
        let metric = &source.metric.name;
        let of_metric = selector(source.metric.selector.as_ref())?;
        let samples =
            metrics_api::pods(cx, metric, self.namespace, self.selector, &of_metric).await;
        let samples = samples.map_err(|error| format!("unable to get metric {metric}: {error}"))?;
        let pods = self.pods()?;
        let target = source.target.average_value.as_ref().map_or(0, milli);
        let target = replicas::Target::Average(target);
        let (current, tolerance) = (self.wanted, self.tolerance);
        let now = cx.now();
        let proposal = replicas::for_pods(&pods, samples, current, target, false, tolerance, now)?;
        Ok(Computed {
            replicas: proposal.replicas,
            name: format!("pods metric {metric}"),
            status: MetricStatus {
                type_: "Pods".to_owned(),
                pods: Some(PodsMetricStatus {
                    metric: source.metric.clone(),
                    current: average(proposal.usage),
                }),
                ..MetricStatus::default()
            },
        })
    }

    async fn object(&self, source: &ObjectMetricSource) -> Result<Computed, String> {
        let metric = &source.metric.name;
        let object = &source.described_object;
        let of_metric = selector(source.metric.selector.as_ref())?;
        let (kind, name, namespace) = (&object.kind, &object.name, self.namespace);
        let read =
            metrics_api::object(self.cx, self.kinds, metric, namespace, object, &of_metric).await;
        let read = read.map_err(|error| {
            format!("unable to get metric {metric}: {error} on {kind} {namespace}/{name}")
        });
        let target = &source.target;
        let (replicas, name, current) = match (target.type_.as_str(), target) {
            (
                "Value",
                MetricTarget {
                    value: Some(target),
                    ..
                },
            ) => {
                let proposal = self.for_value(read?, milli(target))?;
                let name = format!("{kind} metric {metric}");
                (proposal.replicas, name, whole(proposal.usage))
            }
            (
                "AverageValue",
                MetricTarget {
                    average_value: Some(target),
                    ..
                },
            ) => {
                let read =
                    read.map_err(|error| format!("failed to get {metric} object metric: {error}"))?;
                let proposal = self.per_pod(read, milli(target));
                let name = external_name(metric, source.metric.selector.as_ref());
                (proposal.replicas, name, average(proposal.usage))
            }
            _ => {
                return Err("invalid object metric source: neither a value target nor an average value target was set".to_owned());
            }
        };
        Ok(Computed {
            replicas,
            name,
            status: MetricStatus {
                type_: "Object".to_owned(),
                object: Some(ObjectMetricStatus {
                    described_object: object.clone(),
                    metric: source.metric.clone(),
                    current,
                }),
                ..MetricStatus::default()
            },
        })
    }

    async fn external(&self, source: &ExternalMetricSource) -> Result<Computed, String> {
        let metric = &source.metric.name;
        let of_metric = source.metric.selector.as_ref();
        let namespace = self.namespace;
        let read = match selector(of_metric) {
            Ok(selector) => {
                let read = metrics_api::external(self.cx, metric, namespace, &selector).await;
                read.map_err(|error| {
                    let selector = go_print::label_selector(of_metric);
                    format!(
                        "unable to get external metric {namespace}/{metric}/{selector}: {error}"
                    )
                })
            }
            Err(error) => Err(error),
        };
        let sum = |values: Vec<i64>| values.into_iter().fold(0_i64, i64::saturating_add);
        let target = &source.target;
        let (proposal, current) = match (&target.average_value, &target.value) {
            (Some(target), _) => {
                let read = read
                    .map_err(|error| format!("failed to get {metric} external metric: {error}"))?;
                let proposal = self.per_pod(sum(read), milli(target));
                (proposal, average(proposal.usage))
            }
            (None, Some(target)) => {
                let proposal = read.and_then(|read| self.for_value(sum(read), milli(target)));
                let proposal = proposal
                    .map_err(|error| format!("failed to get external metric {metric}: {error}"))?;
                (proposal, whole(proposal.usage))
            }
            (None, None) => {
                return Err("invalid external metric source: neither a value target nor an average value target was set".to_owned());
            }
        };
        Ok(Computed {
            replicas: proposal.replicas,
            name: external_name(metric, of_metric),
            status: MetricStatus {
                type_: "External".to_owned(),
                external: Some(ExternalMetricStatus {
                    metric: source.metric.clone(),
                    current,
                }),
                ..MetricStatus::default()
            },
        })
    }

    fn for_value(&self, value: i64, target: i64) -> Result<Proposal, String> {
        let pods = self.pods().unwrap_or_default();
        replicas::for_value(&pods, value, target, self.wanted, self.tolerance)
    }

    fn per_pod(&self, value: i64, target: i64) -> Proposal {
        replicas::for_value_per_pod(value, target, self.counted, self.tolerance)
    }
}

/// The selector of a metric; none selects nothing in particular.
fn selector(selector: Option<&LabelSelector>) -> Result<Selector, String> {
    let parsed = selector.map(Selector::try_from).transpose();
    Ok(parsed
        .map_err(|error| error.to_string())?
        .unwrap_or_default())
}

fn external_name(metric: &str, selector: Option<&LabelSelector>) -> String {
    format!(
        "external metric {metric}({})",
        go_print::label_selector(selector)
    )
}

fn amount(milli: i64, format: Format) -> Text {
    Text(Quantity::from_milli(milli, format).to_string())
}

fn average(milli: i64) -> MetricValueStatus {
    MetricValueStatus {
        average_value: Some(amount(milli, Format::Decimal)),
        ..MetricValueStatus::default()
    }
}

fn whole(milli: i64) -> MetricValueStatus {
    MetricValueStatus {
        value: Some(amount(milli, Format::Decimal)),
        ..MetricValueStatus::default()
    }
}

fn milli(text: &Text) -> i64 {
    let amount = text.0.parse::<Quantity>();
    amount.map(|amount| amount.milli()).unwrap_or_default()
}
