//! `mowgli outcomes`: lists how a client of libraries may end.

use mowgli::litmus::Verdict as Stated;
use mowgli::model::Tier;
use mowgli::outcome::Limit;
use mowgli_libraries::client::{Client, Query, Setting};
use mowgli_libraries::judge::{self, ITERATIONS_MAX, Under};
use mowgli_libraries::outcomes::outcomes;
use mowgli_libraries::tower::{Tower, UnknownTower};
use serde::Serialize;

use crate::budget::{self, Limits, Run};
use crate::stack::Stack;
use crate::{Error, Exit, clients, output};

/// List the outcomes of clients of libraries
///
/// A client is a program that calls methods of libraries: shared variables, barriers, ring buffers and others
/// (docs/clients.md). Each is judged by the specifications of its libraries, or with an implementation in place of one
/// of them, as --setting says; without it, by every setting that the client states a verdict for.
///
/// Settings compose: with I_RBL+I_SV+I_W, a ring buffer stands on shared variables, these on RDMA^WAIT, and that on RDMA^TSO (LOCO'26
/// Fig. 1). Implementations with a mistake (`mowgli refine --list`) and files *.impl may be parts too.
///
/// With --tier, the network below the libraries orders less than the papers' (docs/ordering-models.md). Clients state
/// verdicts about the papers' network only.
///
/// A star before an outcome says that it satisfies the condition, one column a condition.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  mowgli outcomes LOCO-23\n  mowgli outcomes mine.client --setting weak-ring\n  \
    mowgli outcomes RING-own --json\n  mowgli outcomes LOCO-23 --setting I_RBL+I_SV+I_W\n  mowgli outcomes LOCO-23 --setting I_RBL --tier ooo-rw\n\nEXIT STATUS\n  0  every verdict is as stated\n  1  some verdict differs\n  \
    2  wrong usage, or errors in a client\n  3  some verdict is unknown: a limit was reached"
)]
pub(crate) struct Args {
    /// Files *.client, or built-in clients
    #[arg(required = true, value_name = "CLIENT")]
    clients: Vec<String>,
    /// The judge: spec, transitive-barrier, weak-ring, paper-ring, I_W, I_SV, I_BAL, I_RBL, I_MSW, mine.impl; several joined by +
    #[arg(short, long, value_name = "SETTING")]
    setting: Vec<String>,
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
    setting: String,
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

/// The judge of clients: settings, or files.
enum Judge {
    /// Settings.
    Tower(Tower),
    /// Implementations, of which one is no setting.
    Stack(Stack),
}

impl Judge {
    fn load(name: &str) -> Result<Judge, Error> {
        match name.parse::<Tower>() {
            Ok(tower) if tower.single() == Some(Setting::Shipped) => Err(Error::Usage(format!(
                "{tower} is not judged here: `loco check --client` runs it"
            ))),
            Ok(tower) => Ok(Judge::Tower(tower)),
            Err(error @ UnknownTower::Apart(..)) => Err(Error::Usage(error.to_string())),
            Err(UnknownTower::Setting(unknown)) => match Stack::load(name) {
                Ok(stack) => Ok(Judge::Stack(stack)),
                Err(Error::Usage(other)) => Err(Error::Usage(format!("{unknown}; {other}"))),
                Err(error) => Err(error),
            },
        }
    }

    /// Returns the name over a network of this tier.
    fn name(&self, tier: Tier) -> String {
        match (self, tier) {
            (Judge::Tower(setting), tier) => {
                let setting = *setting;
                Under { setting, tier }.to_string()
            }
            (Judge::Stack(stack), Tier::Ibta) => stack.name(),
            (Judge::Stack(stack), tier) => format!("{}+{tier}", stack.name()),
        }
    }

    /// Returns the verdict that a client states.
    fn stated(&self, tier: Tier, query: &Query) -> Option<Stated> {
        match self {
            Judge::Tower(setting) => {
                let setting = *setting;
                Under { setting, tier }.stated(query)
            }
            Judge::Stack(_) => None,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let run = Run::start(args.limit);
    let tier = args.tier;
    let mut exit = Exit::AsStated;
    let mut reports = Vec::new();
    let asked = args.setting.iter().map(|name| Judge::load(name));
    let asked = asked.collect::<Result<Vec<Judge>, Error>>()?;
    for argument in &args.clients {
        let client = clients::load(argument)?;
        let stated = match asked.is_empty() {
            true => settings(&client),
            false => Vec::new(),
        };
        for judge in asked.iter().chain(&stated) {
            let rules = match judge {
                Judge::Tower(tower) => tower.rules(ITERATIONS_MAX),
                Judge::Stack(stack) => Some(stack.rules(ITERATIONS_MAX)),
            };
            let Some(rules) = rules else { continue };
            let found = outcomes(&client, &rules.on(tier), run.budget());
            for query in &client.queries {
                let verdict = judge::verdict(&client, &query.condition.formula, &found);
                match (judge.stated(tier, query), verdict) {
                    (_, None) if exit == Exit::AsStated => exit = Exit::Unknown,
                    (Some(stated), Some(verdict)) if !judge::agrees(stated, verdict) => exit = Exit::Differs,
                    _ => {}
                }
            }
            if args.json {
                reports.push(json(&client, judge, tier, &found));
            } else {
                let stated = |query: &Query| judge.stated(tier, query);
                let report = judge::report_as(&client, &judge.name(tier), &stated, &found);
                output::print(&format!("{report}\n"))?;
            }
        }
    }
    if args.json {
        output::print_json(&reports)?;
    }
    Ok(exit)
}

/// Returns the settings about which a client states verdicts.
fn settings(client: &Client) -> Vec<Judge> {
    let stated = client.queries.iter().flat_map(|q| q.expected.keys().copied());
    let mut out: Vec<Setting> = stated.chain([Setting::Spec]).collect();
    out.sort_unstable();
    out.dedup();
    out.into_iter().map(|s| Judge::Tower(s.into())).collect()
}

fn json(client: &Client, judge: &Judge, tier: Tier, found: &mowgli_libraries::outcome::Outcomes) -> Report {
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
        stated: judge.stated(tier, query).map(|v| v.to_string()),
    });
    Report {
        version: 1,
        client: client.name.clone(),
        setting: judge.name(Tier::Ibta),
        tier: tier.name(),
        outcomes: outcomes.collect(),
        complete: found.is_complete(),
        limit: found.completeness.limit().map(Limit::advice),
        executions: found.executions,
        verdicts: verdicts.collect(),
    }
}
