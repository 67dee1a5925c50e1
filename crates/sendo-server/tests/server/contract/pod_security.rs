//! Which pods a namespace takes, by the level that its labels ask for.

use serde::Deserialize;
use serde_json::{Value, json};

use super::place::{Answer, Place};
use super::table;

#[derive(Deserialize)]
struct Level {
    level: String,
    version: String,
    pods: Vec<Pod>,
}

#[derive(Deserialize)]
struct Pod {
    spec: Value,
    /// What it is refused for; `None` if it is taken.
    violates: Option<String>,
}

/// Runs all levels of a table.
pub(crate) async fn run(text: &str) {
    let place = Place::open().await;
    for level in table::<Vec<Level>>(text) {
        let labels = json!({
            "pod-security.kubernetes.io/enforce": level.level,
            "pod-security.kubernetes.io/enforce-version": level.version,
        });
        let labels = json!({"metadata": {"labels": labels}});
        let (path, merge) = ("/api/v1/namespaces/here", "application/merge-patch+json");
        let labelled = place.call("PATCH", path, merge, &labels).await;
        assert_eq!(labelled.code, 200, "{}", labelled.body);
        for pod in &level.pods {
            let mut answer = send(&place, pod).await;
            // A real server takes the labels in some time later.
            for _ in 0..100 {
                if level.fault(pod, &answer).is_none() {
                    break;
                }
                place.wait(100).await;
                answer = send(&place, pod).await;
            }
            if let Some(fault) = level.fault(pod, &answer) {
                panic!("{}: {}\n{fault}", level.level, pod.spec);
            }
        }
    }
    place.close().await;
}

async fn send(place: &Place, pod: &Pod) -> Answer {
    let pod = json!({"metadata": {"name": "p"}, "spec": pod.spec});
    let path = "/api/v1/namespaces/here/pods?dryRun=All";
    place.post(path, &pod).await
}

impl Level {
    /// What of an answer is not as told.
    fn fault(&self, pod: &Pod, answer: &Answer) -> Option<String> {
        let (code, message) = match &pod.violates {
            None => (201, Value::Null),
            Some(why) => {
                let named = format!("{}:{}", self.level, self.version);
                let told =
                    format!("pods \"p\" is forbidden: violates PodSecurity \"{named}\": {why}");
                (403, told.into())
            }
        };
        let is_told = answer.code == code && answer.body["message"] == message;
        (!is_told).then(|| format!("{} {}\nand not\n{message}", answer.code, answer.body))
    }
}
