//! The linker flags of the command.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |part: &str| std::env::var(format!("CARGO_CFG_TARGET_{part}"));
    let is_gnu_linux =
        target("OS").as_deref() == Ok("linux") && target("ENV").as_deref() == Ok("gnu");
    // A position-independent executable has tens of thousands of relocations at start, which take
    // milliseconds and make megabytes of pages private to the process.
    if is_gnu_linux && std::env::var("PROFILE").as_deref() == Ok("release") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
