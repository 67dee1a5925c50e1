//! From the text that `prometheus-client` writes to the page that is served.
//!
//! It writes OpenMetrics only, and a family's series in no order. Both are put
//! right here: the text is read back family by family, ordered, and written in
//! the format requested. The classic format differs in small things: a counter's
//! family carries the `_total` of its samples, there are no units, exemplars or
//! end mark, an unknown metric is `untyped`, and numbers are written as Go does,
//! which queries on `le` rely on.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Format;

#[derive(Default)]
struct Family<'a> {
    help: &'a str,
    kind: &'a str,
    unit: Option<&'a str>,
    samples: Vec<Sample<'a>>,
}

struct Sample<'a> {
    name: &'a str,
    /// Names and escaped values, ordered by name.
    labels: Vec<(&'a str, &'a str)>,
    /// The bound of a histogram's bucket.
    le: Option<&'a str>,
    value: &'a str,
    exemplar: Option<&'a str>,
}

/// Writes the OpenMetrics `text` in `format`.
pub(super) fn render(text: &str, format: Format) -> String {
    let mut page = String::with_capacity(text.len());
    for (name, mut family) in families(text) {
        // Stable, so that a histogram's buckets stay in their order.
        family.samples.sort_by(|a, b| a.labels.cmp(&b.labels));
        match format {
            Format::Prometheus => classic(&mut page, name, &family),
            Format::OpenMetrics => open(&mut page, name, &family),
        }
        .expect("a string takes any text");
    }
    if format == Format::OpenMetrics {
        page.push_str("# EOF\n");
    }
    page
}

fn families(text: &str) -> BTreeMap<&str, Family<'_>> {
    let mut families: BTreeMap<&str, Family<'_>> = BTreeMap::new();
    let mut current = "";
    for line in text.lines() {
        let comment = line.strip_prefix("# ").and_then(|rest| {
            let (word, rest) = rest.split_once(' ')?;
            let (name, rest) = rest.split_once(' ')?;
            Some((word, name, rest))
        });
        match comment {
            Some((word, name, rest)) => {
                current = name;
                let family = families.entry(name).or_default();
                match word {
                    "HELP" => family.help = rest,
                    "TYPE" => family.kind = rest,
                    "UNIT" => family.unit = Some(rest),
                    _ => {}
                }
            }
            None => {
                let sample = sample(line);
                families.entry(current).or_default().samples.extend(sample);
            }
        }
    }
    families
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    let mut le = None;
    if let Some(mut inside) = rest.strip_prefix('{') {
        while !inside.starts_with('}') {
            let (label, after) = inside.split_once("=\"")?;
            let close = closing_quote(after)?;
            match label {
                "le" => le = Some(&after[..close]),
                _ => labels.push((label, &after[..close])),
            }
            inside = &after[close + 1..];
            inside = inside.strip_prefix(',').unwrap_or(inside);
        }
        rest = &inside[1..];
    }
    labels.sort();
    let rest = rest.trim_start();
    let (value, exemplar) = match rest.split_once(" # ") {
        Some((value, exemplar)) => (value, Some(exemplar)),
        None => (rest, None),
    };
    Some(Sample {
        name,
        labels,
        le,
        value,
        exemplar,
    })
}

/// Where the quote is that is not escaped.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closing = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closing
    })
}

fn open(page: &mut String, name: &str, family: &Family<'_>) -> std::fmt::Result {
    writeln!(page, "# HELP {name} {}", family.help)?;
    writeln!(page, "# TYPE {name} {}", family.kind)?;
    if let Some(unit) = family.unit {
        writeln!(page, "# UNIT {name} {unit}")?;
    }
    for sample in &family.samples {
        write_series(page, sample, sample.le)?;
        write!(page, " {}", sample.value)?;
        if let Some(exemplar) = sample.exemplar {
            write!(page, " # {exemplar}")?;
        }
        page.push('\n');
    }
    Ok(())
}

fn classic(page: &mut String, name: &str, family: &Family<'_>) -> std::fmt::Result {
    let (suffix, kind) = match family.kind {
        "counter" => ("_total", "counter"),
        "info" => ("_info", "gauge"),
        "stateset" => ("", "gauge"),
        "unknown" => ("", "untyped"),
        kind => ("", kind),
    };
    writeln!(page, "# HELP {name}{suffix} {}", family.help)?;
    writeln!(page, "# TYPE {name}{suffix} {kind}")?;
    for sample in &family.samples {
        let le = sample.le.map(number);
        write_series(page, sample, le.as_deref())?;
        writeln!(page, " {}", number(sample.value))?;
    }
    Ok(())
}

fn write_series(page: &mut String, sample: &Sample<'_>, le: Option<&str>) -> std::fmt::Result {
    page.push_str(sample.name);
    let labels = sample.labels.iter().copied();
    let mut open = '{';
    for (label, value) in labels.chain(le.map(|le| ("le", le))) {
        write!(page, "{open}{label}=\"{value}\"")?;
        open = ',';
    }
    if open == ',' {
        page.push('}');
    }
    Ok(())
}

/// A number as Go writes it: the shortest digits that read back as the same
/// value, with an exponent of two digits at least when it is below -4 or above 20.
fn number(text: &str) -> String {
    let Some(value) = text.parse::<f64>().ok().filter(|value| value.is_finite()) else {
        return text.to_owned();
    };
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(exponent) if value != 0.0 && !(-4..21).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP jobs Jobs done.
# TYPE jobs counter
jobs_total{name="b"} 2 # {trace="x"} 1.0
jobs_total{name="a \" } # ,x=\"",zone="1"} 1
# HELP size Sizes.
# TYPE size histogram
# UNIT size bytes
size_sum{name="b"} 1.0
size_count{name="b"} 1
size_bucket{le="2.0",name="b"} 1
size_bucket{le="+Inf",name="b"} 1
size_sum{name="a"} 0.5
size_count{name="a"} 1
size_bucket{le="1e-8",name="a"} 0
size_bucket{le="+Inf",name="a"} 1
# HELP up Whether.
# TYPE up gauge
up 1.0
"#;

    #[test]
    fn the_classic_format_is_what_prometheus_has_always_read() {
        let expected = r#"# HELP jobs_total Jobs done.
# TYPE jobs_total counter
jobs_total{name="a \" } # ,x=\"",zone="1"} 1
jobs_total{name="b"} 2
# HELP size Sizes.
# TYPE size histogram
size_sum{name="a"} 0.5
size_count{name="a"} 1
size_bucket{name="a",le="1e-08"} 0
size_bucket{name="a",le="+Inf"} 1
size_sum{name="b"} 1
size_count{name="b"} 1
size_bucket{name="b",le="2"} 1
size_bucket{name="b",le="+Inf"} 1
# HELP up Whether.
# TYPE up gauge
up 1
"#;
        assert_eq!(render(TEXT, Format::Prometheus), expected);
    }

    #[test]
    fn openmetrics_keeps_units_exemplars_and_its_end() {
        let page = render(TEXT, Format::OpenMetrics);
        assert!(page.contains("# TYPE jobs counter\n"));
        assert!(page.contains("jobs_total{name=\"b\"} 2 # {trace=\"x\"} 1.0\n"));
        assert!(page.contains("# UNIT size bytes\n"));
        assert!(page.contains("size_bucket{name=\"b\",le=\"2.0\"} 1\n"));
        assert!(page.ends_with("\n# EOF\n"));
    }

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        let cases = [
            ("0.0", "0"),
            ("12", "12"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("9.999999999999999e-6", "9.999999999999999e-06"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("+Inf", "+Inf"),
            ("NaN", "NaN"),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text), expected);
        }
    }
}
