//! Names that fit and names that do not.

use super::*;

fn fits(check: Check, good: &[&str], bad: &[&str]) {
    for value in good {
        assert!(
            check(value).is_empty(),
            "{value:?} should fit: {:?}",
            check(value)
        );
    }
    for value in bad {
        assert!(!check(value).is_empty(), "{value:?} should not fit");
    }
}

#[test]
fn labels_and_domains() {
    let long = "a".repeat(64);
    fits(
        dns1123_label,
        &["a", "1", "a-b", "0a"],
        &["", "-a", "a-", "A", "a.b", "a_b", "é", &long],
    );
    fits(
        dns1123_subdomain,
        &["a", "a.b", "0.1", &long],
        &["", ".", "a.", "a..b", "a.-b", "A.b"],
    );
    fits(dns1035_label, &["a", "a-1"], &["", "1a", "-a", "a-", "a.b"]);
    fits(
        wildcard_dns1123_subdomain,
        &["*.a", "*.a.b"],
        &["", "*", "*.", "a.b", "*.*.a"],
    );
    fits(
        dns1123_subdomain_with_underscore,
        &["_a.b", "a_b", "_tcp.x"],
        &["", "__a", "a_", "a._"],
    );
}

#[test]
fn qualified_names() {
    let long = "a".repeat(64);
    fits(
        qualified_name,
        &["a", "A_b.c-1", "example.dev/A", "0"],
        &["", "/a", "a/", "a/b/c", "Upper.dev/a", "-a", "a b", &long],
    );
    fits(
        label_value,
        &["", "a", "A_1.2-3"],
        &["-a", "a-", "a b", "a/b", &long],
    );
}

#[test]
fn keys_ports_and_variables() {
    fits(
        config_map_key,
        &["a", ".a", "A-b_c.d"],
        &["", ".", "..", "..a", "a b", "a/b"],
    );
    fits(
        port_name,
        &["a", "http-1", "1a"],
        &["", "1", "-a", "a-", "a--b", "A", "abcdefghijklmnop"],
    );
    fits(
        env_var_name,
        &["A", "1a", "a b", "-"],
        &["", "A=B", "é", "a\n"],
    );
    fits(c_identifier, &["a", "_", "A1"], &["", "1", "a-b"]);
    fits(percent, &["0%", "100%"], &["", "%", "1", "-1%", "1.5%"]);
    fits(path_segment, &["", "a", "A:B"], &[".", "..", "a/b", "a%b"]);
}

#[test]
fn the_fault_of_a_dotted_label_names_its_dots() {
    assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
    assert_eq!(
        dns1123_label("A"),
        [
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        ]
    );
}

#[test]
fn an_empty_key_has_two_faults() {
    let faults = qualified_name("");
    assert_eq!(faults.len(), 2);
    assert_eq!(faults[0], "name part must be non-empty");
}

#[test]
fn a_prefix_may_end_in_a_dash() {
    assert!(generate_name("web-", dns1123_label).is_empty());
    assert!(generate_name("web", dns1123_label).is_empty());
    assert!(!generate_name("é-", dns1123_label).is_empty());
    assert!(!generate_name("-", dns1123_label).is_empty());
    assert!(!generate_name("Web-", dns1123_label).is_empty());
}
