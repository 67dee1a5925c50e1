//! Table rows of the kinds of `apps` and `batch`, ReplicationControllers and PodTemplates.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/printers/internalversion/printers.go`: `printDeployment`, `printReplicaSet`,
//!   `printReplicationController`, `printStatefulSet`, `printDaemonSet`, `printJob`,
//!   `printCronJob`, `printPodTemplate`, `printControllerRevision`

use jiff::Timestamp;
use serde_json::Value;

use super::{Cells, Printer, containers, human_duration, labels, selector, text_or};
use crate::kinds::value::Read;

pub(super) fn printer(kind: &str) -> Option<Printer> {
    Some(match kind {
        "ControllerRevision" => controller_revision,
        "CronJob" => cron_job,
        "DaemonSet" => daemon_set,
        "Deployment" => deployment,
        "Job" => job,
        "PodTemplate" => pod_template,
        "ReplicaSet" => replica_set,
        "ReplicationController" => replication_controller,
        "StatefulSet" => stateful_set,
        _ => return None,
    })
}

/// Name, Ready, Up-to-date, Available, Age; wide: Containers, Images, Selector.
fn deployment(cells: &Cells<'_>) -> Vec<Value> {
    let (spec, status) = (cells.spec(), cells.status());
    let [names, images] = containers(spec.at("template").at("spec"));
    vec![
        cells.name(),
        ready_of_desired(cells),
        status.count("updatedReplicas").into(),
        status.count("availableReplicas").into(),
        cells.age(),
        names,
        images,
        selector::plain(spec.at("selector")).into(),
    ]
}

/// Name, Desired, Current, Ready, Age; wide: Containers, Images, Selector.
fn replica_set(cells: &Cells<'_>) -> Vec<Value> {
    let selector = selector::or_none(cells.spec().at("selector"));
    replicas(cells, selector)
}

/// The columns of a ReplicaSet.
fn replication_controller(cells: &Cells<'_>) -> Vec<Value> {
    replicas(cells, labels(cells.spec().at("selector")))
}

fn replicas(cells: &Cells<'_>, selector: String) -> Vec<Value> {
    let (spec, status) = (cells.spec(), cells.status());
    let [names, images] = containers(spec.at("template").at("spec"));
    vec![
        cells.name(),
        spec.count("replicas").into(),
        status.count("replicas").into(),
        status.count("readyReplicas").into(),
        cells.age(),
        names,
        images,
        selector.into(),
    ]
}

/// Name, Ready, Age; wide: Containers, Images.
fn stateful_set(cells: &Cells<'_>) -> Vec<Value> {
    let [names, images] = containers(cells.spec().at("template").at("spec"));
    vec![
        cells.name(),
        ready_of_desired(cells),
        cells.age(),
        names,
        images,
    ]
}

fn ready_of_desired(cells: &Cells<'_>) -> Value {
    let (ready, desired) = (
        cells.status().count("readyReplicas"),
        cells.spec().count("replicas"),
    );
    format!("{ready}/{desired}").into()
}

/// Name, Desired, Current, Ready, Up-to-date, Available, Node Selector, Age; wide: Containers, Images, Selector.
fn daemon_set(cells: &Cells<'_>) -> Vec<Value> {
    let (spec, status) = (cells.spec(), cells.status());
    let pod_spec = spec.at("template").at("spec");
    let [names, images] = containers(pod_spec);
    vec![
        cells.name(),
        status.count("desiredNumberScheduled").into(),
        status.count("currentNumberScheduled").into(),
        status.count("numberReady").into(),
        status.count("updatedNumberScheduled").into(),
        status.count("numberAvailable").into(),
        labels(pod_spec.at("nodeSelector")).into(),
        cells.age(),
        names,
        images,
        selector::or_none(spec.at("selector")).into(),
    ]
}

/// Name, Status, Completions, Duration, Age; wide: Containers, Images, Selector.
fn job(cells: &Cells<'_>) -> Vec<Value> {
    let spec = cells.spec();
    let [names, images] = containers(spec.at("template").at("spec"));
    vec![
        cells.name(),
        job_status(cells).into(),
        completions(cells).into(),
        job_duration(cells).into(),
        cells.age(),
        names,
        images,
        selector::or_none(spec.at("selector")).into(),
    ]
}

fn job_status(cells: &Cells<'_>) -> &'static str {
    let has = |kind: &str| {
        let mut conditions = cells.status().items("conditions").iter();
        conditions
            .find(|c| c.text("type") == kind)
            .is_some_and(|c| c.text("status") == "True")
    };
    if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if cells.is_being_deleted() {
        "Terminating"
    } else {
        let waiting = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
        waiting
            .into_iter()
            .find(|kind| has(kind))
            .unwrap_or("Running")
    }
}

fn completions(cells: &Cells<'_>) -> String {
    let succeeded = cells.status().count("succeeded");
    match (
        cells.spec().number("completions"),
        cells.spec().count("parallelism"),
    ) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        _ => format!("{succeeded}/1"),
    }
}

fn job_duration(cells: &Cells<'_>) -> String {
    let time = |key| cells.status().text(key).parse::<Timestamp>();
    match time("startTime") {
        Ok(start) => human_duration(
            time("completionTime")
                .unwrap_or(cells.now)
                .duration_since(start),
        ),
        Err(_) => String::new(),
    }
}

/// Name, Schedule, Timezone, Suspend, Active, Last Schedule, Age; wide: Containers, Images, Selector.
fn cron_job(cells: &Cells<'_>) -> Vec<Value> {
    let (spec, status) = (cells.spec(), cells.status());
    let job_spec = spec.at("jobTemplate").at("spec");
    let [names, images] = containers(job_spec.at("template").at("spec"));
    let suspend = match spec.switch("suspend") {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last_schedule = match status.at("lastScheduleTime") {
        Value::Null => "<none>".to_owned(),
        time => cells.since(time),
    };
    vec![
        cells.name(),
        spec.text("schedule").into(),
        text_or(spec, "timeZone", "<none>").into(),
        suspend.into(),
        status.items("active").len().into(),
        last_schedule.into(),
        cells.age(),
        names,
        images,
        selector::or_none(job_spec.at("selector")).into(),
    ]
}

/// Name, Containers, Images, Pod Labels.
fn pod_template(cells: &Cells<'_>) -> Vec<Value> {
    let template = cells.object.at("template");
    let [names, images] = containers(template.at("spec"));
    let labels = labels(template.at("metadata").at("labels"));
    vec![cells.name(), names, images, labels.into()]
}

/// Name, Controller, Revision, Age.
fn controller_revision(cells: &Cells<'_>) -> Vec<Value> {
    let mut owners = cells.metadata().items("ownerReferences").iter();
    let controller = match owners.find(|owner| owner.is_set("controller")) {
        Some(owner) => {
            let group = owner
                .text("apiVersion")
                .split_once('/')
                .map(|(group, _)| format!(".{group}"));
            let kind = format!("{}{}", owner.text("kind"), group.unwrap_or_default());
            format!("{}/{}", kind.to_lowercase(), owner.text("name"))
        }
        None => "<none>".to_owned(),
    };
    vec![
        cells.name(),
        controller.into(),
        cells.object.count("revision").into(),
        cells.age(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::printers::row;

    fn cells(group: &str, kind: &str, mut object: serde_json::Value) -> serde_json::Value {
        object["metadata"]["name"] = "x".into();
        object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        row(
            group,
            kind,
            &object,
            "2026-01-01T00:05:00Z".parse().expect("a time"),
        )
        .into()
    }

    fn template() -> serde_json::Value {
        json!({"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}})
    }

    #[test]
    fn a_deployment_counts_its_pods() {
        let object = json!({
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": template()},
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1},
        });
        assert_eq!(
            cells("apps", "Deployment", object),
            json!(["x", "2/3", 3, 1, "5m", "a,b", "i:1,j", "app=x"])
        );
    }

    #[test]
    fn a_job_shows_its_progress() {
        let start = "2026-01-01T00:01:00Z";
        let cases = [
            (
                json!({"completions": 2}),
                json!({}),
                json!(["Running", "0/2", ""]),
            ),
            (
                json!({"parallelism": 3}),
                json!({"succeeded": 1, "startTime": start}),
                json!(["Running", "1/1 of 3", "4m"]),
            ),
            (
                json!({"parallelism": 1}),
                json!({"startTime": start, "completionTime": "2026-01-01T00:01:30Z", "succeeded": 1,
                       "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]}),
                json!(["Complete", "1/1", "30s"]),
            ),
            (
                json!({"completions": 1, "suspend": true}),
                json!({"conditions": [{"type": "Suspended", "status": "True"}]}),
                json!(["Suspended", "0/1", ""]),
            ),
        ];
        for (spec, status, expected) in cases {
            let row = cells("batch", "Job", json!({"spec": spec, "status": status}));
            assert_eq!(json!([row[1], row[2], row[3]]), expected);
        }
    }

    #[test]
    fn a_revision_names_its_controller() {
        let owners = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": true}]);
        let object = json!({"metadata": {"ownerReferences": owners}, "revision": 4});
        assert_eq!(
            cells("apps", "ControllerRevision", object),
            json!(["x", "statefulset.apps/db", 4, "5m"])
        );
    }
}
