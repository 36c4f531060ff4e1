//! `mowgli outcomes`: lists how a client of libraries may end.

use mowgli::model::Tier;
use mowgli::outcome::Limit;
use mowgli_libraries::client::{Client, Setting};
use mowgli_libraries::judge::{self, Under};
use serde::Serialize;

use crate::budget::{self, Limits, Run};
use crate::{Error, Exit, clients, output};

/// List the outcomes of clients of libraries
///
/// A client is a program that calls methods of libraries: shared variables, barriers, ring buffers and others
/// (docs/clients.md). Each is judged by the specifications of its libraries, or with an implementation in place of one
/// of them, as --setting says; without it, by every setting that the client states a verdict for.
///
/// With --tier, the network below the libraries orders less than the papers' (docs/ordering-models.md). Clients state
/// verdicts about the papers' network only.
///
/// A star before an outcome says that it satisfies the condition, one column a condition.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  mowgli outcomes LOCO-23\n  mowgli outcomes mine.client --setting weak-ring\n  \
    mowgli outcomes RING-own --json\n  mowgli outcomes LOCO-23 --setting I_RBL --tier ooo-rw\n\nEXIT STATUS\n  0  every verdict is as stated\n  1  some verdict differs\n  \
    2  wrong usage, or errors in a client\n  3  some verdict is unknown: a limit was reached"
)]
pub(crate) struct Args {
    /// Files *.client, or built-in clients
    #[arg(required = true, value_name = "CLIENT")]
    clients: Vec<String>,
    /// The judge: spec, transitive-barrier, weak-ring, paper-ring, I_W, I_SV, I_BAL, I_RBL, I_MSW
    #[arg(short, long, value_name = "SETTING")]
    setting: Vec<Setting>,
    /// The order that the network keeps: ibta, ooo-rw, ooo-all, pcie-relaxed, unordered
    #[arg(long, value_name = "TIER", default_value = "ibta")]
    tier: Tier,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[arg(short, long, default_value = "time=60s", value_name = "LIMITS", help = budget::HELP, long_help = budget::LONG_HELP)]
    limit: Limits,
}

/// A client under a setting, as JSON.
#[derive(Debug, Serialize)]
struct Report {
    version: u32,
    client: String,
    setting: &'static str,
    tier: &'static str,
    /// The values of each outcome, by `0:a` and `[x]`.
    outcomes: Vec<serde_json::Map<String, serde_json::Value>>,
    complete: bool,
    limit: Option<String>,
    executions: u64,
    verdicts: Vec<Verdict>,
}

#[derive(Debug, Serialize)]
struct Verdict {
    query: String,
    condition: String,
    /// `allowed`, `forbidden`, `required` or `unknown`.
    verdict: String,
    stated: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let run = Run::start(args.limit);
    let mut exit = Exit::AsStated;
    let mut reports = Vec::new();
    for argument in &args.clients {
        let client = clients::load(argument)?;
        for setting in settings(&client, &args.setting) {
            let tier = args.tier;
            let under = Under { setting, tier };
            let Some(found) = judge::outcomes_under(&client, under, run.budget()) else {
                if args.setting.contains(&setting) {
                    return Err(Error::Usage(format!("{setting} is not judged here")));
                }
                continue;
            };
            for query in &client.queries {
                let verdict = judge::verdict(&client, &query.condition.formula, &found);
                match (under.stated(query), verdict) {
                    (_, None) if exit == Exit::AsStated => exit = Exit::Unknown,
                    (Some(stated), Some(verdict)) if !judge::agrees(stated, verdict) => exit = Exit::Differs,
                    _ => {}
                }
            }
            if args.json {
                reports.push(json(&client, under, &found));
            } else {
                output::print(&format!("{}\n", judge::report(&client, under, &found)))?;
            }
        }
    }
    if args.json {
        output::print_json(&reports)?;
    }
    Ok(exit)
}

fn settings(client: &Client, asked: &[Setting]) -> Vec<Setting> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    let stated = client.queries.iter().flat_map(|q| q.expected.keys().copied());
    let mut out: Vec<Setting> = stated.chain([Setting::Spec]).collect();
    out.sort_unstable();
    out.dedup();
    out
}

fn json(client: &Client, under: Under, found: &mowgli_libraries::outcome::Outcomes) -> Report {
    let value = |v: &mowgli_libraries::value::Value| serde_json::to_value(v).unwrap_or_default();
    let outcomes = found.outcomes.iter().map(|outcome| {
        let mut map = serde_json::Map::new();
        for (t, (thread, values)) in client.threads.iter().zip(&outcome.registers).enumerate() {
            for (name, v) in thread.registers.iter().zip(values) {
                map.insert(format!("{t}:{name}"), value(v));
            }
        }
        for (&word, v) in client.observed_words.iter().zip(&outcome.words) {
            map.insert(format!("[{}]", client.object(word).name), value(v));
        }
        map
    });
    let verdicts = client.queries.iter().enumerate().map(|(at, query)| Verdict {
        query: client.query_name(at),
        condition: client.formula(&query.condition.formula),
        verdict: judge::verdict(client, &query.condition.formula, found)
            .map_or_else(|| "unknown".to_owned(), |v| v.to_string()),
        stated: under.stated(query).map(|v| v.to_string()),
    });
    Report {
        version: 1,
        client: client.name.clone(),
        setting: under.setting.name(),
        tier: under.tier.name(),
        outcomes: outcomes.collect(),
        complete: found.is_complete(),
        limit: found.completeness.limit().map(Limit::advice),
        executions: found.executions,
        verdicts: verdicts.collect(),
    }
}
