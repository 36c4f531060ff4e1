//! `mowgli list`: the built-in catalogue.

use std::fmt::Write;

use mowgli::catalogue;
use mowgli::litmus::ParseError;
use mowgli_corerma::catalogue::{self as corerma, Entry};
use serde::Serialize;

use crate::{Error, Exit, output};

/// List the built-in catalogue
///
/// Prints the name of each test and what it shows. Tests are grouped by the paper that they come from.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES\n  mowgli list\n  mowgli list rmw\n  mowgli list --json | jq -r '.[].name'")]
pub(crate) struct Args {
    /// Only tests whose name, folder or description contains this word
    filter: Option<String>,
    /// Print JSON: name, folder, path and description of each test
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    folder: &'static str,
    path: String,
    description: String,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let wanted = args.filter.as_deref().unwrap_or_default().to_lowercase();
    let mut listed = Vec::new();
    let mut add = |name: &'static str, folder: &'static str, path: String, description: Option<String>| {
        let description = description.unwrap_or_default();
        let text = format!("{name} {folder} {description}").to_lowercase();
        if text.contains(&wanted) {
            listed.push(Listed {
                name,
                folder,
                path,
                description,
            });
        }
    };
    let unusable = |path: String| move |e: ParseError| Error::Usage(format!("{path}: {e}"));
    for entry in catalogue::entries() {
        let litmus = entry.parse().map_err(unusable(entry.path()))?;
        add(entry.name, entry.folder, entry.path(), litmus.description);
    }
    for entry in corerma::entries() {
        let litmus = entry.parse().map_err(unusable(entry.path()))?;
        add(entry.name, Entry::FOLDER, entry.path(), litmus.description);
    }
    if args.json {
        output::print_json(&listed)?;
        return Ok(Exit::AsStated);
    }
    let width = listed.iter().map(|l| l.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut folder = "";
    for test in &listed {
        if test.folder != folder {
            folder = test.folder;
            let _ = writeln!(text, "{folder}");
        }
        let _ = writeln!(text, "  {:width$}  {}", test.name, test.description);
    }
    output::print_columns(&text, width + 4)?;
    Ok(Exit::AsStated)
}
