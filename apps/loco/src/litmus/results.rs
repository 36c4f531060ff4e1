//! `loco litmus table` and `loco litmus infer`: results summed up, and the conclusions about the fabric.

use std::path::PathBuf;

use loco_app::print;
use loco_litmus::table::Table;
use loco_litmus::{Record, infer, results};

use crate::error::CliError;

/// Sum results up: for each fabric and family of tests, what was run and what was seen
///
/// Rows are families of tests: the folder of the catalogue, the pivot of
/// generated tests, or the folder of files. `share` is how much of what the
/// model allows was seen. Files can come from different fabrics and hosts.
///
/// Example:
///
///   loco litmus table shm.jsonl verbs.jsonl --html table.html
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct TableArgs {
    /// Files that `loco litmus run --out` has written.
    #[arg(required = true, value_name = "RESULTS")]
    files: Vec<PathBuf>,
    /// Print one line of JSON for each row.
    #[arg(long)]
    json: bool,
    /// Write the table as a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Say which orderings a fabric has, from the results of litmus tests
///
/// For each rule of a family of models: whether a state was seen that the
/// rule forbids, and else how many runs could have shown otherwise. With
/// --model the strongest model that fits is written as a file for
/// `mowgli check --model FILE`. A rule that nothing contradicted may still
/// be absent: the bounds say how rarely it shows then. Tests that `wait`
/// are left out.
///
/// Example:
///
///   loco litmus infer verbs.jsonl --model verbs.cat
///
/// Exit status: 0 all promises of rdma-tso held; 1 one of them was
/// contradicted, or a state has no explanation; 2 bad usage.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct InferArgs {
    /// Files that `loco litmus run --out` has written, of one fabric.
    #[arg(required = true, value_name = "RESULTS")]
    files: Vec<PathBuf>,
    /// Write the inferred model.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

/// Infers and prints the model.
pub fn infer(args: &InferArgs) -> Result<u8, CliError> {
    let inferred = infer::infer(&read(&args.files)?)?;
    if let Some(path) = &args.model {
        std::fs::write(path, &inferred.model).map_err(CliError::os("writing the model"))?;
    }
    if args.json {
        print(serde_json::to_string(&inferred).map_err(CliError::os("writing the result as JSON"))?)?;
    } else {
        print(inferred.to_string().trim_end())?;
    }
    let broken = inferred.evidence.iter().any(|e| e.promised && !e.kept);
    Ok(u8::from(broken || !inferred.unexplained.is_empty()))
}

/// Reads the results of all files. Without any there is nothing to sum up or to infer from, which is an error.
fn read(files: &[PathBuf]) -> Result<Vec<Record>, CliError> {
    let mut records = Vec::new();
    for file in files {
        records.extend(results::read(file)?);
    }
    if records.is_empty() {
        let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        return Err(CliError::Usage(format!(
            "no result in {}: `loco litmus run --out FILE` writes results",
            names.join(", ")
        )));
    }
    Ok(records)
}

/// Prints the table.
pub fn table(args: &TableArgs) -> Result<u8, CliError> {
    let records = read(&args.files)?;
    let table = Table::new(&records);
    if let Some(path) = &args.html {
        std::fs::write(path, table.html()).map_err(CliError::os("writing the page"))?;
    }
    if args.json {
        for row in &table.rows {
            let line = serde_json::to_string(row).map_err(CliError::os("writing a row as JSON"))?;
            print(line)?;
        }
    } else {
        print(table.to_string().trim_end())?;
    }
    Ok(0)
}
