//! `sendo image`: an image of the program, made without a container engine.
//!
//! From the program down: [`build`] has cargo build it, [`elf`] reads which shared libraries it
//! needs, [`libraries`] finds them, [`files`] says what is in the image, [`layer`] packs it,
//! [`describe`] writes what the OCI image specification (image-spec v1.1) asks for beside it, and
//! [`store`] and [`push`] hand it on.

mod build;
mod describe;
mod elf;
mod files;
mod layer;
mod libraries;
mod platform;
mod progress;
mod push;
mod store;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::{Value, json};

use crate::output::{Format, print_json};
use crate::project::{Project, commit};
use describe::{Image, Index, Labels};
use files::ImageFile;
use platform::Platform;
use progress::Progress;
use push::Target;

/// Make a container image of the program, with no container engine
///
/// The image has the program, the shared libraries that it needs, certificate
/// authorities and a user that is not root, and nothing else: no shell, no
/// package manager. The same program makes the same image, byte by byte. It is
/// made for this machine's platform; add programs that you built for others
/// with --binary.
#[derive(Debug, Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  sendo image                                          a tar for `docker load` and `podman load`
  sendo image --output image                           a folder in the OCI layout
  sendo image --tag registry.example.dev/bar:1 --push  straight to a registry
  sendo image --binary linux/arm64=target/aarch64-unknown-linux-musl/release/bar
                                                       for another platform, too

The registry's credentials are those of `docker login` and `podman login`."
)]
pub(crate) struct MakeImage {
    /// The name of the image [default: the program's name and version]
    #[arg(long, value_name = "NAME:TAG")]
    tag: Option<String>,

    /// Push it to the registry that --tag names
    #[arg(long, requires = "tag")]
    push: bool,

    /// Write it here: a tar if the name ends with `.tar`, else a folder in the OCI layout
    /// [default: a tar in the target folder, unless it is pushed]
    #[arg(long = "output", value_name = "PATH")]
    output_path: Option<PathBuf>,

    /// Use this program, built for PLATFORM (such as `linux/arm64`), in place of building one; can
    /// be given several times, for an image of several platforms
    #[arg(long = "binary", value_name = "PLATFORM=PATH", value_parser = platform_and_path)]
    binaries: Vec<(Platform, PathBuf)>,

    /// Build the program with this profile of cargo: `dev` takes what `cargo build` has built
    #[arg(
        long,
        value_name = "NAME",
        default_value = "release",
        conflicts_with = "binaries"
    )]
    profile: String,

    /// Add a label, and an annotation of the same name
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = name_and_value)]
    labels: Vec<(String, String)>,

    /// Push without TLS; on this machine's own addresses that is the default
    #[arg(long)]
    plain_http: bool,

    /// Print JSON for programs
    #[arg(long = "format", value_enum, default_value_t)]
    format: Format,
}

impl MakeImage {
    pub(crate) async fn run(self) -> Result<()> {
        let project = Project::here()?;
        let tag = self.target(&project)?;
        if let Some(path) = &self.output_path {
            store::check_replaceable(path)?;
        }
        let screen = self.format.progress();
        let programs = match self.binaries.is_empty() {
            false => self.binaries.clone(),
            true => vec![(
                Platform::of_this_machine()?,
                build::program(&project, &self.profile)?,
            )],
        };
        let labels = self.labels(&project);
        let mut images = Vec::new();
        for (platform, path) in &programs {
            images.push(image_of(&project, platform, path, &labels)?);
        }
        let index = Index::new(images, tag.to_string());
        for image in &index.images {
            screen.say(format!(
                "{}  {}  {}",
                image.platform,
                size(image.size()),
                image.digest()
            ));
        }
        let written = self.write(&project, &index, &programs)?;
        if let Some(path) = &written {
            screen.step(
                &format!("written to {}", path.display()),
                &how_to_load(path),
            );
        }
        if self.push {
            push::push(&tag, &index, self.plain_http).await?;
            screen.step(
                &format!("pushed {tag}"),
                &format!("{tag}@{}", index.digest()),
            );
        }
        if self.format == Format::Json {
            print_json(&self.as_json(&tag, &index, written.as_deref()))?;
        }
        Ok(())
    }

    /// What the image is called.
    fn target(&self, project: &Project) -> Result<Target> {
        match &self.tag {
            Some(tag) => tag.parse(),
            None => {
                let version = match &*project.version {
                    "" => "latest",
                    version => version,
                };
                // What Cargo adds after a `+` is allowed in no tag.
                let version = version.replace('+', "-");
                format!("{}:{version}", project.name).parse()
            }
        }
    }

    fn labels(&self, project: &Project) -> Labels {
        let mut labels = Labels::from([(
            "org.opencontainers.image.title".to_owned(),
            project.name.clone(),
        )]);
        let mut set = |name: &str, value: Option<String>| {
            let value = value.filter(|value| !value.is_empty());
            labels.extend(value.map(|value| (format!("org.opencontainers.image.{name}"), value)));
        };
        set("version", Some(project.version.clone()));
        set("revision", commit(&project.root));
        for field in ["description", "licenses", "source", "url"] {
            let key = match field {
                "licenses" => "license",
                "source" => "repository",
                "url" => "homepage",
                same => same,
            };
            set(field, project.package_text(key));
        }
        labels.extend(self.labels.iter().cloned());
        labels
    }

    /// Writes it where it was asked for, or where it is found if it goes nowhere else.
    fn write(
        &self,
        project: &Project,
        index: &Index,
        programs: &[(Platform, PathBuf)],
    ) -> Result<Option<PathBuf>> {
        let path = match &self.output_path {
            Some(path) => path.clone(),
            None if self.push => return Ok(None),
            None => default_path(project, &programs[0].1),
        };
        match path.extension().is_some_and(|end| end == "tar") {
            true => store::write_tar(&path, index)?,
            false => store::write_folder(&path, index)?,
        }
        Ok(Some(path))
    }

    fn as_json(&self, tag: &Target, index: &Index, written: Option<&Path>) -> Value {
        let images = index.images.iter().map(|image| {
            json!({
                "platform": image.platform.to_string(),
                "digest": image.digest(),
                "size": image.size(),
                "files": image.files,
            })
        });
        json!({
            "tag": tag.to_string(),
            "digest": index.digest(),
            "images": images.collect::<Vec<_>>(),
            "path": written,
            "pushed": self.push,
        })
    }
}

/// The image of a program for one platform.
fn image_of(project: &Project, platform: &Platform, path: &Path, labels: &Labels) -> Result<Image> {
    let program = std::fs::read(path)
        .with_context(|| format!("cannot read the program {}", path.display()))?;
    let executable = elf::read(&program, path)?;
    platform.check(&executable, path)?;
    let libraries = libraries::find(path, &executable)?;
    let (system, own) = files::layers(&project.program(), program, &executable, libraries)?;
    let all = || system.iter().chain(&own);
    let progress = Progress::new("packing", all().map(ImageFile::size).sum());
    let names = all().map(|file| file.path.clone()).collect();
    let layers = vec![
        layer::pack(&system, &progress)?,
        layer::pack(&own, &progress)?,
    ];
    let entry = files::program_path(&project.program());
    Ok(Image::new(platform.clone(), &entry, layers, labels, names))
}

/// Beside the folders of the builds: `target/image/bar.tar`.
fn default_path(project: &Project, program: &Path) -> PathBuf {
    let built = program.parent().and_then(Path::parent);
    // Cargo marks its target folder.
    let built = built.filter(|folder| folder.join("CACHEDIR.TAG").is_file());
    let target = built.map_or_else(|| project.root.join("target"), Path::to_owned);
    target.join("image").join(format!("{}.tar", project.name))
}

fn how_to_load(path: &Path) -> String {
    match path.extension().is_some_and(|end| end == "tar") {
        true => format!(
            "docker load --input {0}\npodman load --input {0}",
            path.display()
        ),
        false => format!("skopeo copy oci:{} docker://…", path.display()),
    }
}

/// For people: `12.3 MB`.
fn size(bytes: u64) -> String {
    let tenths = (bytes + 50_000) / 100_000;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

fn platform_and_path(text: &str) -> Result<(Platform, PathBuf), String> {
    let (platform, path) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not PLATFORM=PATH, such as `linux/arm64=bar`"))?;
    let platform: Platform = platform.parse().map_err(|error| format!("{error:#}"))?;
    Ok((platform, PathBuf::from(path)))
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not NAME=VALUE")),
    }
}
