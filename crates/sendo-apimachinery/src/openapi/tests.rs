//! Documents as a client reads them.

use serde_json::json;

use super::*;
use crate::resources::{Scope, Subresource, default_columns};

fn nothing(_: &str, _: Option<&str>) -> Option<String> {
    None
}

/// The document at a path, with the descriptions of the request.
fn described(path: &str) -> Option<Value> {
    let (types, resources) = (Types::builtin(), Resources::builtin());
    let describe = |name: &str, field: Option<&str>| {
        let name = name.rsplit('.').next().unwrap_or_default();
        Some(format!("{name}/{}", field.unwrap_or_default()))
    };
    let publisher = Publisher {
        types: &types,
        resources: &resources,
        describe: &describe,
    };
    publisher.document(path)
}

#[test]
fn the_index_names_every_document_with_its_hash() {
    let (types, resources) = (Types::builtin(), Resources::builtin());
    let publisher = Publisher {
        types: &types,
        resources: &resources,
        describe: &nothing,
    };
    let paths = publisher.paths();
    for path in [
        "api",
        "api/v1",
        "apis",
        "apis/apps",
        "apis/autoscaling/v2",
        "version",
    ] {
        assert!(paths.iter().any(|own| own == path), "{path}");
    }
    let hash = publisher.hash("apis/apps/v1");
    assert_ne!(hash, publisher.hash("api/v1"));
    let index = index(paths.iter().map(|path| (path, publisher.hash(path))));
    let url = format!("/openapi/v3/apis/apps/v1?hash={hash}");
    assert_eq!(
        index["paths"]["apis/apps/v1"],
        json!({"serverRelativeURL": url})
    );
}

#[test]
fn what_is_not_served_has_no_document() {
    for path in [
        "",
        "api/v2",
        "apis/apps/v1beta1",
        "apis/example.com",
        "apis/apps/v1/x",
    ] {
        assert_eq!(described(path), None, "{path}");
    }
}

#[test]
fn a_patch_says_which_patches_it_takes_and_of_what_kind() {
    let document = described("apis/apps/v1").unwrap();
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let patch = &document["paths"][path]["patch"];
    let content = patch["requestBody"]["content"].as_object().unwrap();
    assert!(content.contains_key("application/strategic-merge-patch+json"));
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    assert_eq!(patch["x-kubernetes-action"], "patch");
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
}

#[test]
fn a_schema_carries_what_clients_merge_and_explain_by() {
    let document = described("apis/apps/v1").unwrap();
    let schemas = &document["components"]["schemas"];
    let container = &schemas["io.k8s.api.core.v1.Container"];
    assert_eq!(container["description"], "Container/");
    let ports = &container["properties"]["ports"];
    assert_eq!(
        ports["x-kubernetes-list-map-keys"],
        json!(["containerPort", "protocol"])
    );
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
    let policy = &container["properties"]["imagePullPolicy"];
    assert_eq!(policy["description"], "Container/imagePullPolicy");
    assert_eq!(policy["enum"], json!(["Always", "IfNotPresent", "Never"]));
    let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
    let spec = json!({
        "allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}],
        "default": {},
        "description": "Deployment/spec",
    });
    assert_eq!(deployment["properties"]["spec"], spec);
}

#[test]
fn every_reference_leads_to_a_schema() {
    for path in [
        "api/v1",
        "apis/apiextensions.k8s.io/v1",
        "apis/apps/v1",
        "version",
    ] {
        let document = described(path).unwrap();
        let mut references = Vec::new();
        components::collect(&document, &mut references);
        assert!(!references.is_empty());
        for name in references {
            assert!(
                document["components"]["schemas"].get(&name).is_some(),
                "{name}"
            );
        }
    }
}

#[test]
fn a_custom_resource_is_published_with_the_fields_of_every_object() {
    let types = Types::builtin();
    let subresource = |name: &str, kind: &str, group: &str| Subresource {
        name: name.into(),
        kind: kind.into(),
        group: group.into(),
        version: "v1".into(),
        verbs: vec!["get".into(), "patch".into(), "update".into()],
        plain_text: false,
        query: Vec::new(),
    };
    let resource = Resource {
        feature: None,
        group: "stable.example.com".into(),
        version: "v1".into(),
        plural: "widgets".into(),
        singular: "widget".into(),
        kind: "Widget".into(),
        scope: Scope::Namespaced,
        verbs: ["get", "list", "patch", "watch"]
            .map(str::to_owned)
            .to_vec(),
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: vec![
            subresource("scale", "Scale", "autoscaling"),
            subresource("status", "Widget", "stable.example.com"),
        ],
        storage: None,
        returns_deleted: false,
        columns: default_columns(),
    };
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true},
        },
    });
    let custom = CustomResource {
        resource: &resource,
        list_kind: "WidgetList",
        schema: &schema,
    };
    let document = custom_document(&types, &nothing, "stable.example.com", "v1", &[custom]);

    let widget = &document["components"]["schemas"]["com.example.stable.v1.Widget"];
    assert_eq!(widget["required"], json!(["spec"]));
    assert_eq!(widget["properties"]["spec"], schema["properties"]["spec"]);
    let meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(widget["properties"]["metadata"], json!({ "$ref": meta }));
    let template = &widget["properties"]["template"];
    assert_eq!(template["required"], json!(["kind", "apiVersion"]));
    assert_eq!(
        template["properties"]["apiVersion"],
        json!({"type": "string"})
    );

    let root = "/apis/stable.example.com/v1/namespaces/{namespace}/widgets";
    let paths = document["paths"].as_object().unwrap();
    let patch = &paths[&format!("{root}/{{name}}")]["patch"]["requestBody"]["content"];
    let patches: Vec<_> = patch.as_object().unwrap().keys().collect();
    assert_eq!(
        patches,
        [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json"
        ]
    );
    let scale = &paths[&format!("{root}/{{name}}/scale")]["get"]["responses"]["200"];
    assert_eq!(
        scale["content"]["application/json"]["schema"]["$ref"],
        "#/components/schemas/io.k8s.api.autoscaling.v1.Scale"
    );
    let status = &paths[&format!("{root}/{{name}}/status")]["put"]["requestBody"];
    assert_eq!(
        status["content"]["application/yaml"]["schema"]["$ref"],
        "#/components/schemas/com.example.stable.v1.Widget"
    );
}
