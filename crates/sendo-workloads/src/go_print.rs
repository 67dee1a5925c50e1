//! Values as Go prints them, where messages of Kubernetes have them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// A selector as `%v` prints it.
pub(crate) fn label_selector(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else {
        return "nil".to_owned();
    };
    let labels = selector.match_labels.iter().flatten();
    let labels: String = labels
        .map(|(name, value)| format!("{name}: {value},"))
        .collect();
    let expressions = selector.match_expressions.iter().flatten().map(|wanted| {
        let values = wanted.values.as_deref().unwrap_or_default().join(" ");
        let (key, operator) = (&wanted.key, &wanted.operator);
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_selector_is_printed_as_in_go() {
        let selector = serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
        assert_eq!(
            label_selector(Some(&selector)),
            "&LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}"
        );
    }
}
