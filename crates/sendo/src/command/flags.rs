//! The flags of a program as a Deployment has them.

use std::fmt::Display;

use super::Args;

impl Args {
    /// The flags that differ from the defaults, but for what is about one process on one machine:
    /// the kubeconfig, and addresses, which a Deployment has of its own.
    pub(super) fn to_flags(&self) -> Vec<String> {
        let mut flags = Flags::default();
        flags.list("namespaces", &self.namespaces);
        flags.list("except-namespaces", &self.except_namespaces);
        flags.switch("install-kinds", self.install_kinds);
        let workers = self.workers.iter();
        let workers: Vec<String> = workers.map(|(name, n)| format!("{name}={n}")).collect();
        flags.list("workers", &workers);
        flags.value("resync", self.resync);
        flags.value(
            "max-requests",
            self.max_requests.map(|rate| rate.per_second),
        );
        flags.unless_default("lease-duration", self.lease_duration, 15);
        flags.unless_default("renew-deadline", self.renew_deadline.as_secs_f64(), 10.0);
        flags.unless_default("retry-period", self.retry_period.as_secs_f64(), 2.0);
        flags.unless_default("shutdown-timeout", self.shutdown_timeout, 30);
        #[cfg(feature = "logging")]
        {
            // What a developer logs on his machine is no setting of the Deployment.
            if std::env::var("RUST_LOG").as_ref() != Ok(&self.log) {
                flags.unless_default("log", self.log.as_str(), super::args::LOG);
            }
            flags.switch("log-json", self.log_json);
        }
        flags.0
    }
}

#[derive(Default)]
struct Flags(Vec<String>);

impl Flags {
    fn value(&mut self, name: &str, value: Option<impl Display>) {
        self.0
            .extend(value.map(|value| format!("--{name}={value}")));
    }

    fn unless_default<T: Display + PartialEq>(&mut self, name: &str, value: T, default: T) {
        self.value(name, (value != default).then_some(value));
    }

    fn list(&mut self, name: &str, values: &[String]) {
        self.value(name, (!values.is_empty()).then(|| values.join(",")));
    }

    fn switch(&mut self, name: &str, is_on: bool) {
        self.0.extend(is_on.then(|| format!("--{name}")));
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn flags_that_are_given_are_those_of_the_deployment() {
        let flags = |given: &[&str]| {
            let args = Args::try_parse_from([&["program"], given].concat()).unwrap();
            args.to_flags()
        };
        assert_eq!(flags(&["manifests"]), [""; 0]);
        let given = [
            "--namespaces=a,b",
            "--install-kinds",
            "--workers=bar=2",
            "--resync=3600",
            "--max-requests=20",
            "--lease-duration=30",
            "--retry-period=0.5",
            "--shutdown-timeout=60",
        ];
        assert_eq!(flags(&given), given);
        // After the subcommand as well as before it.
        assert_eq!(
            flags(&["manifests", "--namespaces", "a"]),
            ["--namespaces=a"]
        );
        let here = ["--kubeconfig=x", "--metrics-address=:1", "crds"];
        assert_eq!(flags(&here), [""; 0]);
    }
}
