//! What `sendo add` and `sendo remove` make of a project. That the result builds and passes its
//! tests is shown by `cargo xtask e2e`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A project from `sendo new`, committed to git.
struct Project {
    _folder: tempfile::TempDir,
    root: PathBuf,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("bar-controller");
        let project = Project {
            _folder: folder,
            root,
        };
        std::fs::create_dir(&project.root).unwrap();
        project.sendo(&["new", ".", "--name=bar-controller"]);
        project.git(&["init", "--quiet"]);
        project.commit();
        project
    }

    fn git(&self, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.current_dir(&self.root)
            .args(["-c", "user.name=a", "-c", "user.email=a@example.dev"]);
        assert!(
            git.args(arguments).status().unwrap().success(),
            "{arguments:?}"
        );
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message=All of it"]);
    }

    fn run(&self, arguments: &[&str]) -> (Output, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sendo"));
        let output = command
            .args(arguments)
            .current_dir(&self.root)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output, error)
    }

    /// Runs a command that succeeds; what it printed.
    fn sendo(&self, arguments: &[&str]) -> String {
        let (output, error) = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that fails, and changes nothing; its error.
    fn refused(&self, arguments: &[&str]) -> String {
        let before = self.files();
        let (output, error) = self.run(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert_eq!(self.files(), before, "{arguments:?}");
        error
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }

    /// Replaces a part of a file that is there, and commits it.
    fn change(&self, path: &str, from: &str, to: &str) {
        let text = self.read(path);
        assert!(text.contains(from), "{path}: {text}");
        std::fs::write(self.root.join(path), text.replace(from, to)).unwrap();
        self.commit();
    }

    fn files(&self) -> BTreeMap<PathBuf, String> {
        fn collect(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.ends_with(".git") {
                    collect(&path, found);
                } else if path.is_file() {
                    found.insert(path.clone(), std::fs::read_to_string(&path).unwrap());
                }
            }
        }
        let mut found = BTreeMap::new();
        collect(&self.root, &mut found);
        found
    }
}

#[test]
fn a_kind_is_added_beside_the_others_and_removed_without_a_trace() {
    let project = Project::new();
    let before = project.files();
    let said = project.sendo(&["add", "api", "example.dev/v1/Anchor", "--cluster-scoped"]);
    assert!(said.contains("created src/anchor/controller.rs"), "{said}");
    assert!(said.contains("changed src/lib.rs"), "{said}");
    let root = project.read("src/lib.rs");
    let in_order = [
        "pub mod anchor;\npub mod bar;\n",
        ".defines::<bar::v1alpha1::Bar>()\n        .defines::<anchor::v1::Anchor>()\n",
        ".controller(bar::controller::controller())\n        .controller(anchor::controller::controller())\n}",
    ];
    for part in in_order {
        assert!(root.contains(part), "{part}: {root}");
    }
    assert!(!project.read("samples/anchor.yaml").contains("namespace"));
    project.commit();
    let said = project.sendo(&["remove", "api", "Anchor"]);
    assert!(said.contains("removed tests/anchor.rs"), "{said}");
    assert_eq!(project.files(), before);
}

#[test]
fn comments_and_layout_of_the_rest_stay() {
    let project = Project::new();
    let odd = "
// Which of them is first does not matter.
pub mod bar; // the first

use sendo::Manager;

pub fn manager() -> Manager   {
    let name = \"bar-controller\"; /* named */
    Manager::new(name) // without a version
        .defines::<bar::v1alpha1::Bar>() // stored
        // It is the only one.
        .controller(bar::controller::controller()) // the only one
}
";
    std::fs::write(project.root.join("src/lib.rs"), odd).unwrap();
    project.commit();
    project.sendo(&["add", "api", "example.dev/v1/Foo"]);
    let expected = odd
        .replace("// the first\n", "// the first\npub mod foo;\n")
        .replace(
            "// stored\n",
            "// stored\n        .defines::<foo::v1::Foo>()\n",
        )
        .replace(
            "// the only one\n}",
            "// the only one\n        .controller(foo::controller::controller())\n}",
        );
    assert_eq!(project.read("src/lib.rs"), expected);
    project.commit();
    project.sendo(&["remove", "api", "Foo"]);
    assert_eq!(project.read("src/lib.rs"), odd);
}

#[test]
fn a_program_in_its_main_file_is_found_too() {
    let project = Project::new();
    project.change(
        "src/main.rs",
        "bar_controller::manager().run_from_args().await",
        "sendo::Manager::new(\"x\").controller(bar_controller::bar::controller::controller()).run_from_args().await",
    );
    project.change(
        "src/lib.rs",
        "Manager::new(\"bar-controller\")",
        "Manager::default()",
    );
    project.sendo(&["add", "api", "example.dev/v1/Foo"]);
    let main = project.read("src/main.rs");
    for part in [
        ".defines::<bar_controller::foo::v1::Foo>()",
        ".controller(bar_controller::foo::controller::controller())",
    ] {
        let at = main.find(part).unwrap_or_else(|| panic!("{part}: {main}"));
        assert!(at < main.find(".run_from_args").unwrap(), "{main}");
    }
    assert!(project.read("src/lib.rs").contains("pub mod foo;"));
}

#[test]
fn a_version_begins_as_the_stored_one_and_can_become_it() {
    let project = Project::new();
    project.sendo(&["add", "version", "v1", "--of", "Bar"]);
    let new = project.read("src/bar/v1.rs");
    assert!(new.starts_with("//! Bar in version v1,"), "{new}");
    assert!(
        new.contains("    version = \"v1\",\n    storage = false,\n"),
        "{new}"
    );
    assert!(
        project
            .read("src/bar/mod.rs")
            .contains("pub mod v1;\npub mod v1alpha1;")
    );
    assert!(!project.read("src/bar/v1alpha1.rs").contains("storage"));
    let root = project.read("src/lib.rs");
    assert!(
        root.contains("Bar>()\n        .defines::<bar::v1::Bar>()\n"),
        "{root}"
    );
    project.commit();

    project.sendo(&["add", "version", "v2", "--of=Bar", "--stored"]);
    assert!(!project.read("src/bar/v2.rs").contains("storage"));
    let old = project.read("src/bar/v1alpha1.rs");
    assert!(
        old.contains("    version = \"v1alpha1\",\n    storage = false,\n"),
        "{old}"
    );
    project.commit();

    let error = project.refused(&["remove", "version", "v2", "--of=Bar"]);
    assert!(error.contains("stored in v2"), "{error}");
    let error = project.refused(&["remove", "version", "v1alpha1", "--of=Bar"]);
    assert!(
        error.contains("bar::v1alpha1 is used in src/bar/controller.rs:9"),
        "{error}"
    );
    project.sendo(&["remove", "version", "v1", "--of=Bar"]);
    assert!(!project.read("src/lib.rs").contains("bar::v1::Bar"));
    assert_eq!(project.read("src/bar/v1.rs"), "");
}

#[test]
fn a_controller_is_added_for_a_kind_of_kubernetes() {
    let project = Project::new();
    let before = project.files();
    project.sendo(&["add", "controller", "--for", "apps/v1/Deployment"]);
    let controller = project.read("src/deployment/controller.rs");
    assert!(
        controller.contains("use k8s_openapi::api::apps::v1::Deployment;"),
        "{controller}"
    );
    let test = project.read("tests/deployment.rs");
    assert!(test.contains("\"selector\""), "{test}");
    project.commit();
    let error = project.refused(&["add", "controller", "--for", "apps/v1/Deployment"]);
    assert!(error.contains("has a controller already"), "{error}");
    project.sendo(&["remove", "controller", "--for", "apps/v1/Deployment"]);
    assert_eq!(project.files(), before);
}

#[test]
fn webhooks_are_added_with_their_tests_and_removed_without_a_trace() {
    let project = Project::new();
    let before = project.files();
    let said = project.sendo(&["add", "webhook", "Bar", "--default", "--validate"]);
    assert!(said.contains("created src/bar/defaults.rs"), "{said}");
    assert!(project.read("src/bar/mod.rs").contains(
        "pub mod controller;\npub mod defaults;\npub mod v1alpha1;\npub mod validation;\n"
    ));
    let root = project.read("src/lib.rs");
    let calls = "        .webhook(bar::defaults::defaulter())
        .webhook(bar::validation::validator())\n";
    assert!(root.contains(calls), "{root}");
    for (path, part) in [
        (
            "src/bar/defaults.rs",
            "async fn set_defaults(bar: &mut Bar, _cx: Admission)",
        ),
        (
            "src/bar/defaults.rs",
            "async fn a_bar_without_the_label_gets_it",
        ),
        ("src/bar/defaults.rs", "\"spec\": {\"message\":\"hello\"},"),
        (
            "src/bar/validation.rs",
            "async fn validate(change: Change<Bar>, _cx: Admission)",
        ),
    ] {
        assert!(
            project.read(path).contains(part),
            "{part}: {}",
            project.read(path)
        );
    }
    project.commit();
    let error = project.refused(&["add", "webhook", "Bar", "--validate"]);
    assert!(
        error.contains("src/bar/validation.rs is there already"),
        "{error}"
    );
    project.sendo(&["remove", "webhook", "Bar", "--default"]);
    assert!(!project.read("src/lib.rs").contains("defaults"));
    assert!(project.read("src/lib.rs").contains("validator"));
    project.commit();
    project.sendo(&["remove", "webhook", "Bar"]);
    assert_eq!(project.files(), before);
    project.commit();
    let error = project.refused(&["remove", "webhook", "Bar"]);
    assert!(error.contains("there is no src/bar/defaults.rs"), "{error}");
}

#[test]
fn conversions_are_written_from_the_fields_of_both_versions() {
    let project = Project::new();
    let error = project.refused(&["add", "webhook", "Bar", "--convert"]);
    assert!(
        error.contains("`sendo add version VERSION --of Bar`"),
        "{error}"
    );
    project.sendo(&["add", "version", "v1", "--of=Bar", "--stored"]);
    project.commit();
    let before = project.files();
    project.sendo(&["add", "webhook", "Bar", "--convert"]);
    let text = project.read("src/bar/conversion.rs");
    for part in [
        "impl Convert for v1alpha1::Bar {\n    type Hub = v1::Bar;",
        "message: self.spec.message",
        "observed_generation: status.observed_generation",
        "fn nothing_is_lost_on_the_way_to_v1alpha1_and_back()",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let root = project.read("src/lib.rs");
    assert!(root.contains(".serves::<bar::v1alpha1::Bar>()"), "{root}");
    assert!(root.contains(".defines::<bar::v1::Bar>()"), "{root}");
    project.commit();
    project.sendo(&["remove", "webhook", "Bar", "--convert"]);
    assert_eq!(project.files(), before);

    // Fields that only one version has are named, and the rest is taken over.
    project.change(
        "src/bar/v1.rs",
        "pub message: String,",
        "pub message: String,\n    pub size: Option<u8>,",
    );
    let said = project.sendo(&["add", "webhook", "Bar", "--convert"]);
    assert!(
        said.contains("v1 has the field `size`, and v1alpha1 has not"),
        "{said}"
    );
    let text = project.read("src/bar/conversion.rs");
    assert!(
        text.contains("serde_json::from_value(serde_json::to_value(self.spec)?)?"),
        "{text}"
    );
    assert!(
        text.contains("observed_generation: status.observed_generation"),
        "{text}"
    );
}

#[test]
fn a_webhook_without_a_sample_has_no_test_and_says_so() {
    let project = Project::new();
    std::fs::remove_file(project.root.join("samples/bar.yaml")).unwrap();
    project.commit();
    let said = project.sendo(&["add", "webhook", "Bar", "--validate"]);
    assert!(
        said.contains("There is no test of it: it needs an object as in samples/bar.yaml"),
        "{said}"
    );
    assert!(!project.read("src/bar/validation.rs").contains("mod tests"));
}

#[test]
fn a_dry_run_shows_a_diff_and_needs_no_git() {
    let project = Project::new();
    std::fs::write(project.root.join("notes"), "").unwrap();
    let before = project.files();
    let diff = project.sendo(&["add", "api", "example.dev/v1/Foo", "--dry-run"]);
    for part in [
        "--- a/src/lib.rs\n+++ b/src/lib.rs\n",
        "+pub mod foo;\n",
        "--- /dev/null\n+++ b/src/foo/mod.rs\n",
    ] {
        assert!(diff.contains(part), "{part}: {diff}");
    }
    let json = project.sendo(&[
        "add",
        "api",
        "example.dev/v1/Foo",
        "--dry-run",
        "--output=json",
    ]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(
        json["diff"].as_str().unwrap().contains("+pub mod foo;"),
        "{json}"
    );
    assert_eq!(project.files(), before);
}

#[test]
fn missing_dependencies_are_added_and_comments_of_the_manifest_stay() {
    let project = Project::new();
    project.change("Cargo.toml", "schemars = \"1\"\n", "");
    project.sendo(&["add", "api", "example.dev/v1/Foo"]);
    let manifest = project.read("Cargo.toml");
    assert!(manifest.contains("schemars = \"1\""), "{manifest}");
    assert!(manifest.contains("# Kubernetes' own types."), "{manifest}");
}

#[test]
fn what_git_could_not_undo_is_not_done_unless_it_is_allowed() {
    let project = Project::new();
    std::fs::write(project.root.join("notes"), "").unwrap();
    let error = project.refused(&["add", "api", "example.dev/v1/Foo"]);
    assert!(error.contains("not committed to git: notes"), "{error}");
    assert!(error.contains("--allow-dirty"), "{error}");
    project.sendo(&["add", "api", "example.dev/v1/Foo", "--allow-dirty"]);
}

#[test]
fn code_that_is_not_understood_is_left_alone_and_what_to_do_is_told() {
    let project = Project::new();
    project.change(
        "src/lib.rs",
        "Manager::new(\"bar-controller\")",
        "Manager::default()",
    );
    let error = project.refused(&["add", "api", "example.dev/v1/Foo"]);
    for part in [
        "there is no `Manager::new(…)` in src; nothing was changed",
        "pub mod foo;",
        ".defines::<foo::v1::Foo>()",
        ".controller(foo::controller::controller())",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let error = project.refused(&["add", "webhook", "Bar", "--default"]);
    assert!(
        error.contains(".webhook(bar::defaults::defaulter())"),
        "{error}"
    );
    let twice = "Manager::new(\"a\"); Manager::new(\"b\")";
    project.change("src/lib.rs", "Manager::default()", twice);
    let error = project.refused(&["add", "api", "example.dev/v1/Foo"]);
    assert!(
        error.contains("several `Manager::new(…)`: src/lib.rs:9, src/lib.rs:9"),
        "{error}"
    );
    project.change("src/lib.rs", twice, "Manager::new(");
    let error = project.refused(&["add", "api", "example.dev/v1/Foo"]);
    assert!(error.contains("src/lib.rs:"), "{error}");
    assert!(error.contains("is no Rust"), "{error}");
}

#[test]
fn a_kind_that_other_code_uses_is_not_removed() {
    let project = Project::new();
    let line = "pub fn sample() -> bar::v1alpha1::Bar {\n    todo!()\n}\n";
    let root = project.read("src/lib.rs") + line;
    std::fs::write(project.root.join("src/lib.rs"), root).unwrap();
    project.commit();
    let error = project.refused(&["remove", "api", "Bar"]);
    assert!(error.contains("bar is used in src/lib.rs:1"), "{error}");
}

#[test]
fn names_that_cannot_be_are_refused_with_a_fix() {
    let project = Project::new();
    for (arguments, part) in [
        (&["add", "api", "Foo"][..], "is not GROUP/VERSION/KIND"),
        (&["add", "webhook", "Bar"], "--default|--validate|--convert"),
        (&["add", "webhook", "Foo", "--default"], "there is Bar"),
        (
            &["add", "api", "example.dev/v1alpha1/Bar"],
            "is there already, in src/bar/v1alpha1.rs",
        ),
        (
            &["add", "api", "example.dev/v1/Bar"],
            "sendo add version v1 --of Bar",
        ),
        (
            &["add", "api", "other.dev/v1/Bar"],
            "the module `bar` is there already",
        ),
        (&["add", "api", "example.dev/v1/Match"], "named `match`"),
        (&["add", "version", "v1", "--of=Foo"], "there is Bar"),
        (
            &["add", "version", "v1alpha1", "--of=Bar"],
            "has the version v1alpha1 already",
        ),
        (&["add", "version", "1", "--of=Bar"], "it is like `v1`"),
        (
            &["add", "controller", "--for=apps/v2/Deployment"],
            "there is apps/v1/Deployment",
        ),
        (
            &["add", "controller", "--for=example.dev/v1/Foo"],
            "`sendo add api` makes a kind",
        ),
        (
            &["add", "controller", "--for=example.dev/v1alpha1/Bar"],
            "has a controller already",
        ),
        (&["remove", "api", "Foo"], "there is Bar"),
        (
            &["remove", "version", "v1", "--of=Bar"],
            "there is v1alpha1",
        ),
        (
            &["remove", "version", "v1alpha1", "--of=Bar"],
            "`sendo remove api Bar`",
        ),
        (
            &["remove", "controller", "--for=apps/v1/Deployment"],
            "has no controller in src/deployment",
        ),
    ] {
        let error = project.refused(arguments);
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
    let outside = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sendo"));
    let command = command.args(["add", "api", "example.dev/v1/Foo"]);
    let output = command.current_dir(outside.path()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("`sendo new DIR`"), "{error}");
}
