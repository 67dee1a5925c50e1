//! How the command is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |part: &str| std::env::var(format!("CARGO_CFG_TARGET_{part}"));
    let is_gnu_linux =
        target("OS").as_deref() == Ok("linux") && target("ENV").as_deref() == Ok("gnu");
    // A program that may be loaded anywhere has tens of thousands of addresses
    // to fill in when it starts: milliseconds, and megabytes that are its own.
    if is_gnu_linux && std::env::var("PROFILE").as_deref() == Ok("release") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
