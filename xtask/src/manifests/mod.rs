//! `cargo xtask manifests`: what the examples print is what stock tools take, and say the same in
//! every format. Helm lints and renders the charts, kustomize builds the kustomizations, and the
//! validator of the operator framework reads the bundles.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

mod tools;

use tools::Tools;

/// The examples, by their packages.
const EXAMPLES: [&str; 3] = ["bar", "storage-bucket", "tenant"];

/// Everything that a program prints only when it is asked for.
const EXTRAS: &str = "--with=network-policy,service-monitor,dashboard";

/// A namespace that is nobody's default.
const ELSEWHERE: &str = "elsewhere";

/// Checks each example; does nothing where Go is not installed.
pub(crate) fn run() -> Result<()> {
    let Some(tools) = Tools::build()? else {
        println!("skipped: Go, which builds Helm, kustomize and the validator, is not installed");
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("a workspace")?;
    for example in EXAMPLES {
        let program = Program::build(example)?;
        let samples = workspace.join("examples").join(example).join("samples");
        let folder = folder.path().join(example);
        let plain = program.print(&[EXTRAS])?;
        check_chart(&tools, &program, &folder.join("chart"), &plain)?;
        check_kustomization(&tools, &program, &folder.join("kustomize"), &plain)?;
        check_bundle(&tools, &program, &folder.join("bundle"), &samples)?;
        println!(
            "{example}: {} objects, a chart, a kustomization and a bundle",
            plain.len()
        );
    }
    Ok(())
}

/// Objects by namespace, kind and name.
type Objects = BTreeMap<(String, String, String), Value>;

struct Program(PathBuf);

impl Program {
    fn build(package: &str) -> Result<Self> {
        let program = crate::e2e::build(package, package, false)?;
        Ok(Program(program))
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(&self.0);
        command.arg("manifests").args(flags);
        command
    }

    fn print(&self, flags: &[&str]) -> Result<Objects> {
        objects(&output(&mut self.command(flags))?)
    }

    fn write(&self, format: &str, folder: &Path, flags: &[&str]) -> Result<()> {
        let mut command = self.command(flags);
        command.args(["--format", format, "--output"]).arg(folder);
        output(&mut command).map(drop)
    }
}

fn check_chart(tools: &Tools, program: &Program, chart: &Path, plain: &Objects) -> Result<()> {
    program.write("helm", chart, &[EXTRAS])?;
    output(tools.helm()?.args(["lint", "--strict"]).arg(chart))?;
    let template = |flags: &[&str]| -> Result<Objects> {
        let mut command = tools.helm()?;
        command.args(["template", "release"]).arg(chart).args(flags);
        objects(&output(&mut command)?)
    };
    // But for labels of Helm's own, and its namespace, the same objects.
    let namespace = plain.keys().find(|(_, kind, _)| kind == "Namespace");
    let namespace = &namespace.context("no Namespace is printed")?.2;
    let mut rendered = template(&["--namespace", namespace])?;
    let mut expected = plain.clone();
    expected.retain(|(_, kind, _), _| kind != "Namespace");
    rendered.values_mut().for_each(without_what_is_helms);
    expected.values_mut().for_each(without_what_is_helms);
    refuse_differences(&expected, &rendered).context("of the chart")?;

    let elsewhere = program.print(&[
        EXTRAS,
        "--namespace",
        ELSEWHERE,
        "--replicas=3",
        "--image=r.example/i:7",
    ])?;
    let mut flags = vec!["--namespace", ELSEWHERE, "--set=replicas=3"];
    // A tag of digits only is a text all the same.
    flags.push("--set-string=image.repository=r.example/i,image.tag=7");
    let mut rendered = template(&flags)?;
    let mut expected = elsewhere;
    expected.retain(|(_, kind, _), _| kind != "Namespace");
    rendered.values_mut().for_each(without_what_is_helms);
    expected.values_mut().for_each(without_what_is_helms);
    refuse_differences(&expected, &rendered).context("of the chart with values")?;

    let unknown = tools
        .helm()?
        .args(["template", "release"])
        .arg(chart)
        .arg("--set=replica=2")
        .output()?;
    ensure!(
        !unknown.status.success(),
        "the chart takes a value that it does not have"
    );
    Ok(())
}

/// What Helm has in its charts, and what a chart renders as nothing.
fn without_what_is_helms(object: &mut Value) {
    prune(object);
    let metadata = &mut object["metadata"];
    for (map, key) in [
        ("labels", "app.kubernetes.io/instance"),
        ("labels", "app.kubernetes.io/managed-by"),
        ("annotations", "helm.sh/resource-policy"),
    ] {
        if let Some(map) = metadata.get_mut(map).and_then(Value::as_object_mut) {
            map.remove(key);
        }
    }
    if let Some(containers) = object.pointer_mut("/spec/template/spec/containers") {
        for container in containers.as_array_mut().into_iter().flatten() {
            container
                .as_object_mut()
                .map(|fields| fields.remove("imagePullPolicy"));
        }
    }
    prune(object);
}

/// Takes out what is empty: it says nothing.
fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            fields.retain(|name, value| {
                let is_empty = value.as_object().is_some_and(|fields| fields.is_empty())
                    || value.as_array().is_some_and(Vec::is_empty)
                    || value.is_null();
                // A selector of everything, and an issuer that signs itself, are empty objects.
                !is_empty || ["selfSigned", "status"].contains(&name.as_str())
            });
        }
        Value::Array(elements) => elements.iter_mut().for_each(prune),
        _ => {}
    }
}

fn check_kustomization(
    tools: &Tools,
    program: &Program,
    folder: &Path,
    plain: &Objects,
) -> Result<()> {
    program.write("kustomize", folder, &[EXTRAS])?;
    let build = || objects(&output(tools.kustomize().arg("build").arg(folder))?);
    refuse_differences(plain, &build()?).context("of the kustomization")?;

    let settings = folder.join("settings.yaml");
    let text = fs::read_to_string(&settings)?;
    let line = text.lines().find(|line| line.starts_with("  namespace: "));
    let line = line.context("settings.yaml has no namespace")?;
    fs::write(
        &settings,
        text.replace(line, &format!("  namespace: {ELSEWHERE}")),
    )?;
    let elsewhere = program.print(&[EXTRAS, "--namespace", ELSEWHERE])?;
    refuse_differences(&elsewhere, &build()?).context("of the kustomization in another namespace")
}

fn check_bundle(tools: &Tools, program: &Program, folder: &Path, samples: &Path) -> Result<()> {
    let samples = format!("--samples={}", samples.display());
    program.write("bundle", folder, &[EXTRAS, &samples])?;
    let mut validate = tools.validator();
    validate
        .args(["manifests", "--object_validate", "--operatorhub_validate"])
        .arg(folder);
    let result = validate.output().context("run operator-verify")?;
    // It ends with success whatever it finds, and says what that is.
    let said = String::from_utf8_lossy(&result.stderr);
    let errors: Vec<&str> = said
        .lines()
        .filter(|line| !line.contains("level=warning"))
        .collect();
    ensure!(
        result.status.success() && errors.is_empty(),
        "the bundle is refused:\n{said}"
    );
    Ok(())
}

fn refuse_differences(expected: &Objects, found: &Objects) -> Result<()> {
    let keys: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    for key in keys {
        let (a, b) = (expected.get(key), found.get(key));
        if a != b {
            let show = |one: Option<&Value>| match one {
                Some(object) => serde_json::to_string_pretty(object),
                None => Ok("nothing".to_owned()),
            };
            bail!(
                "{key:?}: printed as {}\nand rendered as {}",
                show(a)?,
                show(b)?
            );
        }
    }
    Ok(())
}

fn objects(yaml: &str) -> Result<Objects> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)
        .map_err(|error| anyhow::anyhow!("no YAML: {error}\n{yaml}"))?;
    let documents = documents.into_iter().filter(|document| !document.is_null());
    let keyed = documents.map(|mut object| {
        whole_numbers(&mut object);
        let text = |pointer| {
            let text = object.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let key = (
            text("/metadata/namespace"),
            text("/kind"),
            text("/metadata/name"),
        );
        (key, object)
    });
    Ok(keyed.collect())
}

/// Writes `1.0` as `1`: tools differ in that, and it is the same number.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0);
            if let Some(whole) = whole.filter(|_| number.is_f64()) {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// What a command prints; its words if it fails.
fn output(command: &mut Command) -> Result<String> {
    let result = command
        .output()
        .with_context(|| format!("run {command:?}"))?;
    if !result.status.success() {
        bail!(
            "{command:?}: {}{}",
            String::from_utf8_lossy(&result.stdout),
            String::from_utf8_lossy(&result.stderr)
        );
    }
    Ok(String::from_utf8(result.stdout)?)
}
