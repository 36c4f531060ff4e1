//! `loco new`: makes a project outside the clone, with a channel of its own, a program, and a test under the memory model.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use loco_app::print;

use crate::error::CliError;

/// The clone in which this command was built.
const BUILT_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The library and the explorer, as folders of a clone.
const LIBRARY: &str = "loco/objects";
const EXPLORER: &str = "checkers/sim";
/// The script that installs the library for C, as a file of a clone.
const INSTALLER: &str = "loco/c/install.sh";

/// Names that cannot be those of a package: keywords, crates that every program has, and folders of what Cargo builds.
const RESERVED: &str = "abstract as async await become box break build const continue core crate deps do dyn else enum \
    examples extern false final fn for gen if impl in incremental let loco loco_sim loop macro match mod move mut override \
    priv proc_macro pub ref return self static std struct super test trait true try type typeof unsafe unsized use virtual \
    where while yield alloc";

/// Make a project: a channel of your own, a program that uses it, and a test of it under the memory model
///
/// `cargo test` in the project explores the channel in every execution that the memory model of RDMA allows. `./run.sh` builds
/// the program and starts it as three nodes.
///
/// The project takes the library from the clone in which this command was built, from the clone that --path names, or
/// with --git from a repository. From a clone it takes the versions of all other crates, too, so that it builds
/// offline where the clone was built.
///
/// With --c, the program is in C, and `make test` compares what its nodes print. The explorer runs Rust only: the test under
/// the model is that of a project in Rust.
#[derive(clap::Args)]
pub struct Args {
    /// Folder to make; its last part is the name of the project.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Make a project in C.
    #[arg(long)]
    c: bool,
    /// Take the library from this clone.
    #[arg(long, value_name = "CLONE")]
    path: Option<PathBuf>,
    /// Take the library from this repository, at the revision of --rev.
    #[arg(long, value_name = "URL", requires = "rev", conflicts_with_all = ["path", "c"])]
    git: Option<String>,
    /// Revision of the repository of --git.
    #[arg(long, value_name = "REVISION", requires = "git")]
    rev: Option<String>,
}

/// A file of a project: its path, its text, and whether it is a program.
struct File {
    path: &'static str,
    text: &'static str,
    is_program: bool,
}

const fn file(path: &'static str, text: &'static str) -> File {
    File {
        path,
        text,
        is_program: false,
    }
}

const fn program(path: &'static str, text: &'static str) -> File {
    File {
        path,
        text,
        is_program: true,
    }
}

const RUST: [File; 6] = [
    file("Cargo.toml", include_str!("../templates/rust/Cargo.toml.in")),
    file("src/lib.rs", include_str!("../templates/rust/src/lib.rs")),
    file("src/main.rs", include_str!("../templates/rust/src/main.rs")),
    file("tests/model.rs", include_str!("../templates/rust/tests/model.rs")),
    program("run.sh", include_str!("../templates/rust/run.sh")),
    file(".gitignore", include_str!("../templates/rust/gitignore")),
];

const C: [File; 4] = [
    file("{{name}}.c", include_str!("../templates/c/program.c")),
    file("Makefile", include_str!("../templates/c/Makefile")),
    program("run.sh", include_str!("../templates/c/run.sh")),
    file(".gitignore", include_str!("../templates/c/gitignore")),
];

/// The place from which a project takes the library.
enum Source {
    Clone(PathBuf),
    Repository { url: String, revision: String },
}

/// Makes the project and says how to go on.
///
/// # Errors
/// Returns [`CliError::Usage`] for a name that Cargo would refuse, a folder that exists, and a clone that is none; and the
/// errors of writing files.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let name = name(&args.folder)?;
    let source = match (&args.git, &args.rev) {
        (Some(url), Some(revision)) => Source::Repository {
            url: url.clone(),
            revision: revision.clone(),
        },
        _ => Source::Clone(clone(args.path.as_deref())?),
    };
    make_folder(&args.folder)?;
    let folder = args
        .folder
        .canonicalize()
        .map_err(CliError::os("finding the new folder"))?;
    let files: &[File] = if args.c { &C } else { &RUST };
    let filled = |text: &str| fill(text, &name, &source, &folder);
    for file in files {
        write(
            &folder.join(filled(file.path)),
            &filled(file.text),
            file.is_program,
        )?;
    }
    if !args.c {
        take_versions(&source, &folder)?;
    }
    let test = match args.c {
        false => "cargo test      explores the channel in every execution that the memory model allows",
        true => "make test       compares what the nodes print",
    };
    print(format_args!(
        "made {name}; now:\n  cd {}\n  ./run.sh        builds the program and starts three nodes\n  {test}",
        args.folder.display()
    ))?;
    Ok(0)
}

/// Returns the name of the project in this folder.
fn name(folder: &Path) -> Result<String, CliError> {
    let name = folder
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let has_form = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if !has_form {
        return Err(CliError::Usage(format!(
            "`{}` does not end in a name for a project: letters, digits, `-` and `_`, and a letter first",
            folder.display()
        )));
    }
    if RESERVED
        .split_whitespace()
        .any(|reserved| reserved == crate_name(name))
    {
        return Err(CliError::Usage(format!(
            "a project cannot be called `{name}`, which is a word of Rust or of Cargo: take another name"
        )));
    }
    Ok(name.to_owned())
}

/// Returns the name by which Rust code names the package.
fn crate_name(name: &str) -> String {
    name.replace('-', "_")
}

/// Returns the clone to take the library from: the one that was named, else the one in which this command was built.
fn clone(named: Option<&Path>) -> Result<PathBuf, CliError> {
    let path = named.unwrap_or(Path::new(BUILT_IN));
    let found = path.canonicalize().ok();
    let is_clone = |path: &PathBuf| path.join(LIBRARY).join("Cargo.toml").is_file();
    found.filter(is_clone).ok_or_else(|| {
        let from = match named {
            Some(path) => format!("{} is no clone of the repository", path.display()),
            None => "the clone in which this command was built is gone".to_owned(),
        };
        CliError::Usage(format!(
            "{from}: say --path CLONE for a folder that has `{LIBRARY}`, or --git URL --rev REVISION"
        ))
    })
}

fn make_folder(folder: &Path) -> Result<(), CliError> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(failed("making", parent))?;
    }
    fs::create_dir(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => CliError::Usage(format!(
            "{} exists already: take another name, or remove it",
            folder.display()
        )),
        _ => failed("making", folder)(error),
    })
}

/// Returns the text with the names of this project.
fn fill(text: &str, name: &str, source: &Source, folder: &Path) -> String {
    let (library, explorer, installer) = match source {
        Source::Clone(clone) => {
            let at = |part| format!("path = \"{}\"", between(folder, &clone.join(part)).display());
            (at(LIBRARY), at(EXPLORER), clone.join(INSTALLER))
        }
        Source::Repository { url, revision } => {
            let at = format!("git = \"{url}\", rev = \"{revision}\"");
            (at.clone(), at, PathBuf::from(INSTALLER))
        }
    };
    text.replace("{{name}}", name)
        .replace("{{crate}}", &crate_name(name))
        .replace("{{loco}}", &library)
        .replace("{{loco-sim}}", &explorer)
        .replace("{{workspace}}", workspace(folder))
        .replace("{{install}}", &installer.display().to_string())
}

/// Returns the end of the manifest. Cargo takes a package below another manifest for a member of that workspace unless it says
/// that it is one of its own.
fn workspace(folder: &Path) -> &'static str {
    let mut around = folder.ancestors().skip(1);
    match around.any(|folder| folder.join("Cargo.toml").is_file()) {
        true => "\n# Not a member of the workspace around it.\n[workspace]\n",
        false => "",
    }
}

/// Returns the way from one absolute folder to another.
fn between(from: &Path, to: &Path) -> PathBuf {
    let common = from
        .components()
        .zip(to.components())
        .take_while(|(one, other)| one == other)
        .count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

fn write(path: &Path, text: &str, is_program: bool) -> Result<(), CliError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed("making", parent))?;
    }
    fs::write(path, text).map_err(failed("writing", path))?;
    if is_program {
        let everybody = fs::Permissions::from_mode(0o755);
        fs::set_permissions(path, everybody).map_err(failed("making a program of", path))?;
    }
    Ok(())
}

/// Gives the project the versions of other crates with which the clone is built. Cargo removes those that the project does not
/// use.
fn take_versions(source: &Source, folder: &Path) -> Result<(), CliError> {
    let Source::Clone(clone) = source else {
        return Ok(());
    };
    let versions = clone.join("Cargo.lock");
    if !versions.is_file() {
        return Ok(());
    }
    fs::copy(&versions, folder.join("Cargo.lock")).map_err(failed("copying", &versions))?;
    Ok(())
}

/// Returns a closure for `map_err` that names the action and the file.
fn failed(action: &str, path: &Path) -> impl FnOnce(io::Error) -> CliError {
    let what = format!("{action} {}", path.display());
    move |source| CliError::File { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_or_refused_as_cargo_does() {
        for good in ["hello", "my-channel", "../there/x_1"] {
            assert!(name(Path::new(good)).is_ok(), "{good}");
        }
        for bad in [
            "", "/", "..", "1st", "-x", "a b", "é", "fn", "loco", "loco-sim", "test",
        ] {
            let Err(CliError::Usage(why)) = name(Path::new(bad)) else {
                panic!("{bad} is taken");
            };
            assert!(why.contains("name") || why.contains("called"), "{why}");
        }
    }

    #[test]
    fn the_way_between_folders_is_relative() {
        let way = |from: &str, to: &str| between(Path::new(from), Path::new(to));
        assert_eq!(way("/a/hello", "/a/loco/objects"), Path::new("../loco/objects"));
        assert_eq!(way("/a/b/c", "/x"), Path::new("../../../x"));
        assert_eq!(way("/a", "/a/b"), Path::new("b"));
    }
}
