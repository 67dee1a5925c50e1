//! Writes metrics in the text format of Prometheus, as Go's `expfmt` does.

use std::fmt::Write;

use super::table::{Counter, Gauge, Histogram, Table};

/// The media type of a page.
pub(crate) const MEDIA_TYPE: &str =
    "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// What is known of a metric beside its values.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) name: &'static str,
    /// With the level of stability that Kubernetes gives it.
    pub(crate) help: &'static str,
    /// In the order in which values are given; the page has them by name.
    pub(crate) labels: &'static [&'static str],
}

/// The metrics of a page, each family as it is written. They are sorted by name in the end.
#[derive(Debug, Default)]
pub(crate) struct Page {
    families: Vec<(&'static str, String)>,
}

impl Page {
    /// Writes the counters of a table.
    pub(crate) fn counters(&mut self, about: &Description, table: &Table<Counter>) {
        let series = table.sorted();
        let values = series
            .iter()
            .map(|series| (&*series.labels, series.value.value() as f64));
        self.values("counter", about, values);
    }

    /// Writes the gauges of a table.
    pub(crate) fn gauges(&mut self, about: &Description, table: &Table<Gauge>) {
        let series = table.sorted();
        let values = series
            .iter()
            .map(|series| (&*series.labels, series.value.value() as f64));
        self.values("gauge", about, values);
    }

    /// Writes the histograms of a table.
    pub(crate) fn histograms(&mut self, about: &Description, table: &Table<Histogram>) {
        let series = table.sorted();
        self.histogram_values(
            about,
            series.iter().map(|series| (&*series.labels, &series.value)),
        );
    }

    /// Writes histograms by their labels.
    pub(super) fn histogram_values<'a, L: AsRef<str> + 'a>(
        &mut self,
        about: &Description,
        values: impl Iterator<Item = (&'a [L], &'a Histogram)>,
    ) {
        let mut text = String::new();
        for (labels, histogram) in values {
            let mut count = 0;
            for (bound, up_to) in histogram.cumulative() {
                count = up_to;
                let bound = go_float(bound);
                sample(
                    &mut text,
                    about,
                    "_bucket",
                    labels,
                    Some(&bound),
                    up_to as f64,
                );
            }
            sample(&mut text, about, "_sum", labels, None, histogram.sum());
            sample(&mut text, about, "_count", labels, None, count as f64);
        }
        self.family("histogram", about, &text);
    }

    /// Writes a metric of this type: values by their labels.
    pub(crate) fn values<'a, L: AsRef<str> + 'a>(
        &mut self,
        kind: &str,
        about: &Description,
        values: impl Iterator<Item = (&'a [L], f64)>,
    ) {
        let mut text = String::new();
        for (labels, value) in values {
            sample(&mut text, about, "", labels, None, value);
        }
        self.family(kind, about, &text);
    }

    /// Writes a metric of one value.
    pub(crate) fn value(&mut self, kind: &str, about: &Description, value: f64) {
        let none: &[&str] = &[];
        self.values(kind, about, [(none, value)].into_iter());
    }

    /// A metric without values is left out.
    fn family(&mut self, kind: &str, about: &Description, samples: &str) {
        if samples.is_empty() {
            return;
        }
        let Description { name, help, .. } = about;
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let text = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}");
        self.families.push((name, text));
    }

    /// The page.
    pub(crate) fn finish(mut self) -> String {
        self.families.sort_by_key(|(name, _)| *name);
        let texts = self.families.iter().map(|(_, text)| text.as_str());
        texts.collect()
    }
}

fn sample<L: AsRef<str>>(
    out: &mut String,
    about: &Description,
    suffix: &str,
    values: &[L],
    bound: Option<&str>,
    value: f64,
) {
    out.push_str(about.name);
    out.push_str(suffix);
    let values = values.iter().map(AsRef::as_ref);
    let mut labels: Vec<(&str, &str)> = about.labels.iter().copied().zip(values).collect();
    labels.sort_unstable();
    // A histogram's own label comes last.
    labels.extend(bound.map(|bound| ("le", bound)));
    for (at, (name, text)) in labels.iter().enumerate() {
        out.push(if at == 0 { '{' } else { ',' });
        out.push_str(name);
        out.push_str("=\"");
        for character in text.chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                other => out.push(other),
            }
        }
        out.push('"');
    }
    if !labels.is_empty() {
        out.push('}');
    }
    writeln!(out, " {}", go_float(value)).expect("a text takes all that is written");
}

/// A number as Go's `strconv.FormatFloat(value, 'g', -1, 64)` writes it.
pub(super) fn go_float(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if value == 0.0 || value.is_nan() {
        return if value == 0.0 { "0" } else { "NaN" }.to_owned();
    }
    // The shortest digits that are this number, with its exponent: "1.25e-3".
    let shortest = format!("{value:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        -4..6 => format!("{value}"),
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_in_go() {
        for (value, text) in [
            (0.0, "0"),
            (5.0, "5"),
            (0.005, "0.005"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1.25, "1.25"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(go_float(value), text);
        }
    }

    #[test]
    fn a_page_has_families_and_labels_by_name() {
        let histograms: Table<Histogram> = Table::default();
        histograms.with(
            &["x"],
            || Histogram::new(&[1.0]),
            |histogram| histogram.observe(0.5),
        );
        let counters: Table<Counter> = Table::default();
        counters.count(&["POST", "a\"b"]);
        let mut page = Page::default();
        page.histograms(
            &Description {
                name: "b",
                help: "two",
                labels: &["z"],
            },
            &histograms,
        );
        page.counters(
            &Description {
                name: "a_total",
                help: "one",
                labels: &["verb", "code"],
            },
            &counters,
        );
        page.counters(
            &Description {
                name: "never",
                help: "nothing",
                labels: &[],
            },
            &Table::default(),
        );
        let expected = "# HELP a_total one\n# TYPE a_total counter\na_total{code=\"a\\\"b\",verb=\"POST\"} 1\n\
            # HELP b two\n# TYPE b histogram\nb_bucket{z=\"x\",le=\"1\"} 1\nb_bucket{z=\"x\",le=\"+Inf\"} 1\n\
            b_sum{z=\"x\"} 0.5\nb_count{z=\"x\"} 1\n";
        assert_eq!(page.finish(), expected);
    }
}
