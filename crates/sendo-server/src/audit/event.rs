//! An audit event, in the form of `audit.k8s.io/v1`.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/apis/audit/v1/types.go`: `Event`, `ObjectReference`
//! - `staging/src/k8s.io/apiserver/pkg/audit/request.go`: `LogRequestMetadata`, `LogRequestObject`, `removeManagedFields`
//! - `staging/src/k8s.io/apimachinery/pkg/util/net/http.go`: `SourceIPs`

use std::collections::BTreeMap;
use std::net::IpAddr;

use http::HeaderMap;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use sendo_apimachinery::Meta;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::access::authorise::{Attributes, Requested};
use crate::request::Request;
use crate::request::path::Target;
use crate::request::user::User;

/// An event, with its members in the order in which Kubernetes writes them.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    kind: &'static str,
    api_version: &'static str,
    pub(super) level: &'static str,
    #[serde(rename = "auditID")]
    pub(super) audit_id: String,
    pub(super) stage: &'static str,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: UserInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) impersonated_user: Option<UserInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) authentication_metadata: Option<Value>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    source_ips: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    user_agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_status: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_object: Option<Value>,
    request_received_timestamp: String,
    pub(super) stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<String, String>,
}

/// A user, as `authentication.k8s.io/v1` has it.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct UserInfo {
    #[serde(skip_serializing_if = "String::is_empty")]
    username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Vec<String>>,
}

impl From<&User> for UserInfo {
    fn from(user: &User) -> Self {
        UserInfo {
            username: user.name.clone(),
            uid: user.uid.clone(),
            groups: user.groups.clone(),
            extra: user.extra.clone(),
        }
    }
}

/// What a request is about.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
}

/// User agents are cut to this many bytes.
const USER_AGENT: usize = 1024;

impl Event {
    /// The event of a request as it came. The user is unknown if it could not be authenticated.
    pub(super) fn new(
        request: &Request,
        attributes: &Attributes<'_>,
        user: Option<&User>,
        level: &'static str,
        audit_id: String,
        received: Timestamp,
    ) -> Self {
        let object_ref = match &attributes.requested {
            Requested::NonResource(_) => None,
            Requested::Resource(resource) => Some(ObjectReference {
                resource: resource.resource.to_owned(),
                namespace: resource.namespace.to_owned(),
                name: resource.name.to_owned(),
                api_group: resource.group.to_owned(),
                api_version: match &request.target {
                    Target::Resource(path) => path.version.clone(),
                    Target::Other => String::new(),
                },
                subresource: resource.subresource.to_owned(),
                ..ObjectReference::default()
            }),
        };
        let uri = &request.uri;
        Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level,
            audit_id,
            stage: "",
            request_uri: uri
                .path_and_query()
                .map_or_else(|| uri.path(), |all| all.as_str())
                .to_owned(),
            verb: attributes.verb.to_owned(),
            user: user.map(UserInfo::from).unwrap_or_default(),
            impersonated_user: None,
            authentication_metadata: None,
            source_ips: source_ips(&request.headers, request.peer),
            user_agent: cut(request.header(http::header::USER_AGENT)),
            object_ref,
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: micro_time(received),
            stage_timestamp: micro_time(received),
            annotations: BTreeMap::new(),
        }
    }

    /// Completes what the request is about by the object that was sent.
    pub(super) fn refer_to(&mut self, object: &Value) {
        let Some(reference) = &mut self.object_ref else {
            return;
        };
        let meta = Meta::new(object);
        for (known, sent) in [
            (&mut reference.namespace, meta.namespace()),
            (&mut reference.name, meta.name()),
            (&mut reference.uid, meta.uid()),
            (
                &mut reference.resource_version,
                meta.get("resourceVersion")
                    .and_then(Value::as_str)
                    .unwrap_or_default(),
            ),
        ] {
            if known.is_empty() {
                sent.clone_into(known);
            }
        }
    }

    /// Notes the code of the response.
    pub(super) fn set_code(&mut self, code: u16) {
        let status = self.response_status.get_or_insert_with(Map::new);
        status.insert("metadata".to_owned(), json!({}));
        status.insert("code".to_owned(), code.into());
    }

    /// Notes what a Status says.
    pub(super) fn set_status(&mut self, status: &Value) {
        let own = self.response_status.get_or_insert_with(Map::new);
        for member in ["status", "message", "reason", "details", "code"] {
            if let Some(value) = status.get(member) {
                own.insert(member.to_owned(), value.clone());
            }
        }
    }
}

/// A time as `metav1.MicroTime` shows it.
pub(super) fn micro_time(time: Timestamp) -> String {
    let time = time.to_zoned(TimeZone::UTC);
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// An object without the field managers of it, of its items and of its rows.
pub(super) fn without_managed_fields(mut object: Value) -> Value {
    fn remove(object: &mut Value) {
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.remove("managedFields");
        }
    }
    remove(&mut object);
    for (list, member) in [("items", None), ("rows", Some("object"))] {
        let Some(Value::Array(items)) = object.get_mut(list) else {
            continue;
        };
        for item in items {
            match member {
                None => remove(item),
                Some(member) => item.get_mut(member).into_iter().for_each(remove),
            }
        }
    }
    object
}

/// Where a request comes from: what its headers say, then the address of the connection.
fn source_ips(headers: &HeaderMap, peer: Option<IpAddr>) -> Vec<String> {
    let text = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    };
    let forwarded = text("x-forwarded-for").split(',');
    let mut all: Vec<IpAddr> = forwarded.filter_map(|ip| ip.trim().parse().ok()).collect();
    if let Ok(real) = text("x-real-ip").parse()
        && !all.contains(&real)
    {
        all.push(real);
    }
    all.extend(peer.filter(|peer| all.last() != Some(peer)));
    all.iter().map(IpAddr::to_string).collect()
}

fn cut(agent: &str) -> String {
    match agent.get(..USER_AGENT) {
        Some(begin) if agent.len() > USER_AGENT => format!("{begin}...TRUNCATED"),
        _ => agent.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_is_the_last_that_a_request_comes_from() {
        let headers = |pairs: &[(&'static str, &'static str)]| -> HeaderMap {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
                .collect()
        };
        let peer = "10.0.0.9".parse().ok();
        let seen = |pairs: &[_]| source_ips(&headers(pairs), peer).join(" ");
        assert_eq!(seen(&[]), "10.0.0.9");
        let forwarded = ("x-forwarded-for", "192.0.2.1, nonsense,192.0.2.2");
        assert_eq!(seen(&[forwarded]), "192.0.2.1 192.0.2.2 10.0.0.9");
        let real = ("x-real-ip", "10.0.0.9");
        assert_eq!(seen(&[forwarded, real]), "192.0.2.1 192.0.2.2 10.0.0.9");
    }

    #[test]
    fn field_managers_are_left_out_wherever_objects_are() {
        let managed = || json!({"metadata": {"name": "a", "managedFields": []}});
        let bare = || json!({"metadata": {"name": "a"}});
        assert_eq!(without_managed_fields(managed()), bare());
        let list = without_managed_fields(json!({"items": [managed()]}));
        assert_eq!(list, json!({"items": [bare()]}));
        let table = without_managed_fields(json!({"rows": [{"object": managed()}]}));
        assert_eq!(table, json!({"rows": [{"object": bare()}]}));
    }

    #[test]
    fn times_have_microseconds() {
        let time = "2026-01-02T03:04:05.5Z".parse().unwrap();
        assert_eq!(micro_time(time), "2026-01-02T03:04:05.500000Z");
    }
}
