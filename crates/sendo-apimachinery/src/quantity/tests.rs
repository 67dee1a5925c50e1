//! Amounts as people write them, and as they come back.

use super::*;

fn shown(text: &str) -> String {
    text.parse::<Quantity>().unwrap().to_string()
}

#[test]
fn amounts_print_in_canonical_form() {
    let cases = [
        ("0", "0"),
        ("1", "1"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        (".5", "500m"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("12Ki", "12Ki"),
        ("100n", "100n"),
        ("0.1n", "1n"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("10e3", "10e3"),
        ("1000e3", "1e6"),
        ("1e-3", "1e-3"),
        ("-1", "-1"),
        ("-0.5", "-500m"),
        ("123456789012345678901", "123456789012345678901"),
        ("10Ei", "9223372036854775807"),
        ("1E", "1E"),
        ("0Ki", "0"),
        ("-", "0"),
        (".", "0"),
    ];
    for (text, expected) in cases {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn a_text_that_looks_canonical_is_kept() {
    for text in ["+1Gi", "00012", "1.500", "100m", "3Ki"] {
        assert_eq!(shown(text), text);
    }
}

#[test]
fn what_is_no_amount_is_refused() {
    let cases = [
        ("", QuantityError::Format),
        ("abc", QuantityError::Format),
        ("1 ", QuantityError::Format),
        ("1e1x", QuantityError::Format),
        ("1K", QuantityError::Suffix),
        ("1e", QuantityError::Suffix),
        ("1kk", QuantityError::Suffix),
        ("1Ki1", QuantityError::Suffix),
        ("1e99999999999", QuantityError::Suffix),
        ("Pi", QuantityError::Numeric),
    ];
    for (text, expected) in cases {
        assert_eq!(text.parse::<Quantity>().unwrap_err(), expected, "{text}");
    }
}

#[test]
fn sums_are_exact_and_keep_the_family_of_the_first() {
    let sum = |a: &str, b: &str| {
        let mut a: Quantity = a.parse().unwrap();
        a.add(&b.parse().unwrap());
        a.to_string()
    };
    assert_eq!(sum("100m", "900m"), "1");
    assert_eq!(sum("1Gi", "512Mi"), "1536Mi");
    assert_eq!(sum("0", "1Ki"), "1Ki");
    assert_eq!(sum("1", "1Ki"), "1025");
    let mut rest: Quantity = "1".parse().unwrap();
    rest.sub(&"1500m".parse().unwrap());
    assert_eq!(rest.to_string(), "-500m");
}

#[test]
fn whole_numbers_round_away_from_zero() {
    let quantity: Quantity = "1500m".parse().unwrap();
    assert_eq!((quantity.units(), quantity.milli()), (2, 1500));
    let negative: Quantity = "-1500m".parse().unwrap();
    assert_eq!(negative.units(), -2);
    let mut tiny: Quantity = "100n".parse().unwrap();
    tiny.round_up_to_milli();
    assert_eq!(tiny.to_string(), "1m");
}

#[test]
fn an_amount_beyond_all_bounds_is_the_largest_one() {
    for text in [
        "1e30",
        "-1e30",
        "1e100",
        "9999999999999999999999999999999999999999Ei",
    ] {
        let quantity: Quantity = text.parse().unwrap();
        let mut rounded = quantity.clone();
        rounded.round_up_to_milli();
        assert_eq!(rounded, quantity, "{text}");
        assert_eq!(rounded.to_string(), quantity.to_string(), "{text}");
        rounded.add(&quantity);
        assert_eq!(rounded.milli(), quantity.milli(), "{text}");
    }
}

#[test]
fn equal_amounts_are_equal_however_written() {
    let parse = |text: &str| text.parse::<Quantity>().unwrap();
    assert_eq!(parse("1"), parse("1000m"));
    assert_eq!(parse("1Ki"), parse("1024"));
    assert!(parse("1Mi") > parse("1M"));
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
        let _ = text.parse::<Quantity>().map(|q| q.to_string());
    }

    #[test]
    fn what_is_printed_reads_back(text in "[+-]?[0-9]{1,12}(\\.[0-9]{0,6})?(n|u|m|k|M|G|Ki|Mi|Gi|e[0-9])?") {
        let quantity: Quantity = text.parse().unwrap();
        let again: Quantity = quantity.to_string().parse().unwrap();
        proptest::prop_assert_eq!(&again, &quantity);
        proptest::prop_assert_eq!(again.canonical(), quantity.canonical());
    }
}
