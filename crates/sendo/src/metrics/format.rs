//! The two text formats, and which of them a scraper wants.

/// A text format for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The classic format of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format that an `Accept` header asks for: the classic one unless
    /// OpenMetrics is preferred to it.
    pub fn accepted_by(header: &str) -> Self {
        let (mut open, mut classic) = (0.0, 0.0);
        for range in header.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let (mut quality, mut version) = (1.0, None);
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name {
                    "q" => quality = value.parse::<f32>().unwrap_or(0.0),
                    "version" => version = Some(value),
                    _ => {}
                }
            }
            match (kind, version) {
                ("application/openmetrics-text", None | Some("1.0.0" | "0.0.1")) => {
                    open = quality.max(open);
                }
                ("text/plain", None | Some("0.0.4")) | ("*/*" | "text/*", _) => {
                    classic = quality.max(classic);
                }
                _ => {}
            }
        }
        if open > classic {
            Format::OpenMetrics
        } else {
            Format::Prometheus
        }
    }

    /// The value of the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classic_format_is_given_unless_another_is_preferred() {
        let cases = [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/html", Format::Prometheus),
            ("application/openmetrics-text", Format::OpenMetrics),
            (
                "application/openmetrics-text; version=1.0.0; q=0.6, text/plain;version=0.0.4;q=0.3, */*;q=0.2",
                Format::OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=9.0.0,text/plain;q=0.1",
                Format::Prometheus,
            ),
            (
                "text/plain, application/openmetrics-text",
                Format::Prometheus,
            ),
        ];
        for (header, format) in cases {
            assert_eq!(Format::accepted_by(header), format, "{header}");
        }
    }
}
