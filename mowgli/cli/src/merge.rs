//! `mowgli merge`: joins the JSON of the shares of a run.
//!
//! It works on JSON, not on the commands' types: rows of a share carry the number of their unit, by which they are put into the order of
//! the whole run, and counts are added. Each kind of document has a function here.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use crate::read::{self, RESULT_BYTES_MAX};
use crate::{Error, Exit, output};

/// Join the JSON of the shares of a run
///
/// Takes the outputs of `mowgli check`, `robust`, `refine`, `distinguish` or `generate` with --json --shard I/N, or of `loco check --json --shard
/// I/N`, one file a share, and prints what the same command without --shard prints (but for times, which are added). It is an error if a
/// share is missing or given twice, or if the files are of different runs.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  mowgli merge check-1.json check-2.json check-3.json\n  mowgli merge out/*.json > whole.json\n\n\
    EXIT STATUS\n  0  the shares are joined\n  2  they are not those of one run, or a file cannot be read"
)]
pub(crate) struct Args {
    /// The shares
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
}

/// A share of a run.
struct Share {
    path: String,
    index: usize,
    count: usize,
    /// The document; of `loco check` the lines after the first.
    documents: Vec<Map<String, Value>>,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let mut shares = args
        .files
        .iter()
        .map(|path| share(path))
        .collect::<Result<Vec<_>, _>>()?;
    shares.sort_by_key(|share| share.index);
    complete(&shares)?;
    let is_lines = shares[0].documents.len() != 1 || shares[0].documents[0].contains_key("object");
    if is_lines || shares.iter().any(|share| share.documents.is_empty()) {
        return lines(&shares);
    }
    let documents = shares
        .into_iter()
        .flat_map(|share| share.documents)
        .collect::<Vec<_>>();
    let whole = join(documents).map_err(Error::Usage)?;
    output::print_json(&whole)?;
    Ok(Exit::AsStated)
}

fn share(path: &str) -> Result<Share, Error> {
    let text = read::text(Path::new(path), RESULT_BYTES_MAX, "the JSON of a share")?;
    let mut documents = Vec::new();
    for document in serde_json::Deserializer::from_str(&text).into_iter::<Map<String, Value>>() {
        documents.push(document.map_err(|e| Error::Usage(format!("{path}:{}: {e}", e.line())))?);
    }
    let shard = documents.first().and_then(|d| d.get("shard")?.as_str());
    let parts = shard.and_then(|s| s.split_once('/'));
    let numbers = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    let Some((index, count)) = numbers else {
        return Err(Error::Usage(format!(
            "{path} is not the JSON of a share: run the command with --json --shard I/N"
        )));
    };
    if documents.first().is_some_and(|d| d.len() == 1) {
        documents.remove(0);
    }
    Ok(Share {
        path: path.to_owned(),
        index,
        count,
        documents,
    })
}

/// Checks that every share is there once.
fn complete(shares: &[Share]) -> Result<(), Error> {
    let count = shares[0].count;
    if let Some(other) = shares.iter().find(|share| share.count != count) {
        return Err(Error::Usage(format!(
            "{} is a share of {count}, {} one of {}",
            shares[0].path, other.path, other.count
        )));
    }
    if let Some(pair) = shares.windows(2).find(|pair| pair[0].index == pair[1].index) {
        return Err(Error::Usage(format!(
            "{} and {} are both share {}/{count}",
            pair[0].path, pair[1].path, pair[0].index
        )));
    }
    let given: BTreeSet<usize> = shares.iter().map(|share| share.index).collect();
    let missing: Vec<String> = (1..=count)
        .filter(|i| !given.contains(i))
        .map(|i| format!("{i}/{count}"))
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::Usage(format!("no file has share {}", missing.join(", ")))),
    }
}

/// Prints the lines of `loco check`: the n-th line of each share, then the next.
fn lines(shares: &[Share]) -> Result<Exit, Error> {
    let most = shares
        .iter()
        .map(|share| share.documents.len())
        .max()
        .unwrap_or(0);
    for line in 0..most {
        for share in shares {
            if let Some(document) = share.documents.get(line) {
                output::print(&format!("{}\n", serde_json::to_string(document)?))?;
            }
        }
    }
    Ok(Exit::AsStated)
}

/// Completes the first argument, made from the first document, by what all documents say.
type Join = fn(&mut Map<String, Value>, &[Map<String, Value>]) -> Result<(), String>;

/// Joins documents, in the order of their shares.
fn join(documents: Vec<Map<String, Value>>) -> Result<Map<String, Value>, String> {
    let first = &documents[0];
    let by: Join = if first.contains_key("engine") {
        checked
    } else if first.contains_key("refined") {
        robust
    } else if first.contains_key("implementation") {
        refined
    } else if first.contains_key("tests") {
        distinguished
    } else if first.contains_key("rows") {
        generated
    } else {
        return Err("the files are of no command whose shares can be joined".to_owned());
    };
    let mut whole = first.clone();
    whole.remove("shard");
    whole.remove("run");
    by(&mut whole, &documents)?;
    if documents.iter().any(|d| d.get("run") != first.get("run")) {
        let words = "the files are of different runs: the tests, the models or the options are not the same in all of them";
        return Err(words.to_owned());
    }
    Ok(whole)
}

/// Fails unless the documents agree on these members.
fn agree(documents: &[Map<String, Value>], members: &[&str]) -> Result<(), String> {
    for member in members {
        let differs = |d: &&Map<String, Value>| d.get(*member) != documents[0].get(*member);
        if let Some(other) = documents.iter().find(differs) {
            let show = |d: &Map<String, Value>| d.get(*member).map_or("none".to_owned(), Value::to_string);
            return Err(format!(
                "the files are of different runs: {member} is {} and {}",
                show(&documents[0]),
                show(other)
            ));
        }
    }
    Ok(())
}

fn number(document: &Map<String, Value>, member: &str) -> f64 {
    document.get(member).and_then(Value::as_f64).unwrap_or(0.0)
}

fn count(document: &Map<String, Value>, member: &str) -> u64 {
    document.get(member).and_then(Value::as_u64).unwrap_or(0)
}

/// Replaces members by the sums of the documents' members.
fn add(whole: &mut Map<String, Value>, documents: &[Map<String, Value>], counts: &[&str], times: &[&str]) {
    for &member in counts {
        let sum: u64 = documents.iter().map(|d| count(d, member)).sum();
        whole.insert(member.to_owned(), sum.into());
    }
    for &member in times {
        let sum: f64 = documents.iter().map(|d| number(d, member)).sum();
        whole.insert(member.to_owned(), sum.into());
    }
}

/// Collects the rows of all documents in the order of their units, and takes the units off.
fn rows(documents: &[Map<String, Value>], member: &str) -> Vec<Value> {
    let all = documents
        .iter()
        .filter_map(|d| d.get(member)?.as_array())
        .flatten();
    let mut numbered: Vec<(u64, Value)> = all
        .map(|row| {
            let mut row = row.clone();
            let unit = row.as_object_mut().and_then(|row| row.remove("unit"));
            (unit.and_then(|u| u.as_u64()).unwrap_or(0), row)
        })
        .collect();
    numbered.sort_by_key(|(unit, _)| *unit);
    numbered.into_iter().map(|(_, row)| row).collect()
}

/// Adds the totals of all documents up: these counts and the time. The first reason to stop is kept.
fn totals(documents: &[Map<String, Value>], counts: &[&str]) -> Result<Map<String, Value>, String> {
    let totals: Vec<Map<String, Value>> = documents
        .iter()
        .filter_map(|d| d.get("totals")?.as_object().cloned())
        .collect();
    let Some(mut total) = totals.first().cloned() else {
        return Err("a file has no totals".to_owned());
    };
    add(&mut total, &totals, counts, &["time_s"]);
    let stopped = totals.iter().map(|t| &t["stopped"]).find(|s| !s.is_null());
    total.insert("stopped".to_owned(), stopped.cloned().unwrap_or_default());
    Ok(total)
}

/// Joins documents of `mowgli robust`.
fn robust(whole: &mut Map<String, Value>, documents: &[Map<String, Value>]) -> Result<(), String> {
    // Every share reads all tests.
    agree(documents, &["version", "refined", "refused", "warnings"])?;
    let counts = [
        "tests",
        "robust",
        "not_robust",
        "not_shown",
        "unknown",
        "vacuous",
        "as_stated",
        "differ",
        "unchecked",
        "not_applicable",
        "not_begun",
    ];
    whole.insert("totals".to_owned(), totals(documents, &counts)?.into());
    whole.insert("rows".to_owned(), rows(documents, "rows").into());
    Ok(())
}

/// Joins documents of `mowgli check`.
fn checked(whole: &mut Map<String, Value>, documents: &[Map<String, Value>]) -> Result<(), String> {
    // Every share reads all tests.
    agree(documents, &["version", "engine", "refused", "warnings"])?;
    let rows = rows(documents, "rows");
    let names: BTreeSet<(String, String)> = rows
        .iter()
        .map(|row| (row["path"].to_string(), row["name"].to_string()))
        .collect();
    let mut total = totals(
        documents,
        &[
            "verdicts",
            "as_stated",
            "differ",
            "unknown",
            "disagreements",
            "vacuous",
            "not_begun",
        ],
    )?;
    total.insert("conditions".to_owned(), names.len().into());
    whole.insert("totals".to_owned(), total.into());
    whole.insert("rows".to_owned(), rows.into());
    Ok(())
}

/// Joins documents of `mowgli refine`. A whole run ends at the first client that refutes.
fn refined(whole: &mut Map<String, Value>, documents: &[Map<String, Value>]) -> Result<(), String> {
    agree(
        documents,
        &["version", "implementation", "specification", "question", "bounds"],
    )?;
    add(whole, documents, &["clients", "complete"], &["seconds"]);
    let limit = documents
        .iter()
        .map(|d| &d["limit"])
        .find(|l| !l.is_null())
        .cloned();
    let all_complete = documents.iter().all(|d| {
        let refuted = u64::from(!d["refuted_by"].is_null());
        count(d, "complete") + refuted == count(d, "clients")
    });
    let refuted = documents.iter().filter_map(|d| d["refuted_by"].as_object());
    if let Some(first) = refuted.min_by_key(|r| count(r, "number")) {
        if all_complete {
            let number = count(first, "number");
            whole.insert("clients".to_owned(), number.into());
            whole.insert("complete".to_owned(), number.saturating_sub(1).into());
        }
        whole.insert("refuted_by".to_owned(), first.clone().into());
    }
    whole.insert("limit".to_owned(), limit.unwrap_or_default());
    Ok(())
}

/// Joins documents of `mowgli distinguish`.
fn distinguished(whole: &mut Map<String, Value>, documents: &[Map<String, Value>]) -> Result<(), String> {
    agree(documents, &["version", "first", "second", "language"])?;
    add(whole, documents, &["programs"], &["time_s"]);
    let complete = documents.iter().all(|d| d["complete"] == Value::Bool(true));
    whole.insert("complete".to_owned(), complete.into());
    whole.insert("tests".to_owned(), rows(documents, "tests").into());
    Ok(())
}

/// Joins documents of `mowgli generate`, whose rows are one for each source.
fn generated(whole: &mut Map<String, Value>, documents: &[Map<String, Value>]) -> Result<(), String> {
    agree(documents, &["version", "model"])?;
    let sources: Vec<Vec<Map<String, Value>>> = documents
        .iter()
        .map(|d| {
            let rows = d.get("rows").and_then(Value::as_array).into_iter().flatten();
            rows.filter_map(|row| row.as_object().cloned()).collect()
        })
        .collect();
    let most = sources.iter().map(Vec::len).max().unwrap_or(0);
    let mut rows = Vec::new();
    for place in 0..most {
        let same: Vec<Map<String, Value>> = sources.iter().filter_map(|s| s.get(place).cloned()).collect();
        agree(&same, &["source"])?;
        let mut row = same[0].clone();
        add(&mut row, &same, &["tests", "outcomes"], &["time_s"]);
        let complete = same.len() == sources.len() && same.iter().all(|r| r["complete"] == Value::Bool(true));
        row.insert("complete".to_owned(), complete.into());
        rows.push(Value::Object(row));
    }
    whole.insert("shard".to_owned(), "1/1".into());
    whole.insert("rows".to_owned(), rows.into());
    Ok(())
}
