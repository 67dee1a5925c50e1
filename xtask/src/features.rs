//! `cargo xtask features`: whether the library builds with the features that an
//! application may choose, beside those that all tests are built with.

use std::process::Command;

use anyhow::{Result, ensure};

/// The oldest Kubernetes release that `k8s-openapi` has types of: what builds with
/// it and with ours uses nothing that an application's choice takes away.
const OLDEST: &str = "k8s-openapi/v1_33";

/// What an application depends on, with which features. `sendo-test` brings the
/// embedded cluster.
const CHOICES: [&[&str]; 4] = [
    &["sendo", "--no-default-features"],
    &["sendo", "--no-default-features", "--features=args"],
    &[
        "sendo",
        "--no-default-features",
        "--features=certificates,compact",
    ],
    &["sendo-test"],
];

/// Checks one choice after the other; a warning is an error.
pub(crate) fn run() -> Result<()> {
    for choice in CHOICES {
        println!("cargo add {} with {OLDEST}", choice.join(" "));
        let mut clippy = Command::new(env!("CARGO"));
        clippy
            .args(["clippy", "--locked", "--features", OLDEST, "--package"])
            .args(choice)
            .args(["--", "-D", "warnings"]);
        ensure!(clippy.status()?.success(), "it does not build like that");
    }
    Ok(())
}
