//! What `mowgli refine` says: the clients that were judged, and the one that refutes.

use std::fmt;
use std::time::Duration;

use mowgli::counted::counted;
use mowgli::model::Tier;
use mowgli::outcome::Limit;
use mowgli_libraries::client::Method;
use mowgli_libraries::enumerate::Bounds;
use mowgli_libraries::explain::implementation_execution;
use mowgli_libraries::implementations::list::Named;
use mowgli_libraries::over_clients::Summary;
use serde::Serialize;

use super::Args;
use crate::shard;

/// The result, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    /// The fingerprint of what was asked, in a share only.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    implementation: String,
    specification: &'static str,
    tier: &'static str,
    question: &'static str,
    bounds: Covered,
    /// Clients that are larger than `bounds` and were judged too, not all of their size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) larger: Option<Larger>,
    clients: u64,
    complete: u64,
    seconds: f64,
    limit: Option<String>,
    pub(super) refuted_by: Option<Refutation>,
}

/// The clients that were asked about.
#[derive(Debug, Serialize)]
pub(super) struct Covered {
    /// The most calls of a client; with `random`, the calls of each.
    calls: usize,
    /// The most threads.
    threads: usize,
    /// The most nodes.
    nodes: u8,
    /// The most objects of each library.
    objects: usize,
    /// The methods that clients call.
    methods: Vec<&'static str>,
    /// The methods of further sets of clients, of the same size.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<Vec<&'static str>>,
    /// The number of clients to draw, unless all are asked about.
    random: Option<u64>,
}

/// Some of the clients of a size.
#[derive(Debug, Serialize)]
pub(super) struct Larger {
    /// The calls of each.
    pub(super) calls: usize,
    /// Those that were judged.
    pub(super) clients: u64,
}

impl Covered {
    fn of(families: &[Bounds], args: &Args) -> Covered {
        let methods = |bounds: &Bounds| {
            let of_libraries = bounds.libraries.iter().flat_map(|library| library.methods());
            let called = of_libraries.filter(|method| bounds.has(*method));
            called.map(Method::name).collect::<Vec<_>>()
        };
        let of_any = |size: fn(&Bounds) -> usize| families.iter().map(size).max().unwrap_or(0);
        let mut methods = families.iter().map(methods);
        Covered {
            calls: of_any(|b| b.calls_max),
            threads: of_any(|b| b.threads_max),
            nodes: of_any(|b| usize::from(b.nodes_max)) as u8,
            objects: of_any(|b| b.objects_max),
            methods: methods.next().unwrap_or_default(),
            also: methods.collect(),
            random: args.random,
        }
    }
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let upto = if self.random.is_some() { "" } else { "up to " };
        write!(
            f,
            "{upto}{}, up to {} on up to {}, up to {} of each library; calls of {}",
            counted(self.calls, "call"),
            counted(self.threads, "thread"),
            counted(self.nodes, "node"),
            counted(self.objects, "object"),
            self.methods.join(", ")
        )?;
        self.also
            .iter()
            .try_for_each(|methods| write!(f, "; and of {}", methods.join(", ")))
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Refutation {
    /// The client's number in the list of all clients, from 1.
    number: u64,
    client: String,
    /// The outcome that the specification does not allow, or the condition of Def. 3.13 that fails.
    what: String,
    execution: String,
    /// Why the specification has no execution with this outcome; not for local soundness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) missing: Option<String>,
}

/// Makes the report of a run.
pub(super) fn of(
    named: &Named<'_>,
    args: &Args,
    families: &[Bounds],
    summary: &Summary,
    elapsed: Duration,
) -> Report {
    // A run ends with the client that refutes, so it is the last that was judged.
    let (last, share) = (summary.clients.saturating_sub(1), args.shard);
    let number = last * share.count() as u64 + share.index() as u64;
    let outcome = summary.failure.as_ref().map(|f| Refutation {
        number,
        client: f.client.print(),
        what: f.outcome.display(&f.client),
        execution: implementation_execution(&f.client, &f.events),
        missing: None,
    });
    let local = summary.local_failure.as_ref().map(|f| Refutation {
        number,
        client: f.client.print(),
        what: f.why.clone(),
        execution: implementation_execution(&f.client, &f.events),
        missing: None,
    });
    Report {
        version: 1,
        shard: shard::named(args.shard),
        run: shard::run_of(args.shard, || {
            format!(
                "{} {families:?} {} {} {:?} {}",
                named.name, args.tier, args.local, args.random, args.seed
            )
        }),
        implementation: named.name.to_owned(),
        specification: named.setting.name(),
        tier: args.tier.name(),
        question: if args.local {
            "local soundness"
        } else {
            "refinement"
        },
        bounds: Covered::of(families, args),
        larger: None,
        clients: summary.clients,
        complete: summary.complete,
        seconds: elapsed.as_secs_f64(),
        limit: summary.limit.as_ref().map(Limit::advice),
        refuted_by: outcome.or(local),
    }
}

impl Report {
    /// Says the result in words.
    pub(super) fn in_words(&self) -> String {
        let report = self;
        let network = match report.tier == Tier::Ibta.name() {
            true => String::new(),
            false => format!(" over a network of tier {}", report.tier),
        };
        let mut out = format!(
            "{} against {}{network} ({}): {}, {} of them completely, {:.1} s\n",
            report.implementation,
            report.specification,
            report.question,
            counted(report.clients, "client"),
            report.complete,
            report.seconds
        );
        match (&report.refuted_by, &report.limit) {
            (Some(refuted), _) => {
                out.push_str(&format!(
                    "Refuted by\n\n{}\n{}\n\nThe implementation's execution:\n\n{}",
                    refuted.client, refuted.what, refuted.execution
                ));
                if let Some(missing) = &refuted.missing {
                    out.push_str(&format!(
                        "\nThe specification has no execution with this outcome.\n{missing}"
                    ));
                }
            }
            (None, Some(limit)) => out.push_str(&format!("Nothing refuted; {limit}\n")),
            (None, None) => {
                let which = match (&report.shard, report.bounds.random) {
                    (Some(shard), _) => format!("share {shard} of the"),
                    (None, Some(_)) => "these random".to_owned(),
                    (None, None) => "all".to_owned(),
                };
                let larger = match &report.larger {
                    Some(Larger { calls, clients }) if *clients > 0 => {
                        format!(", and on {} of {calls} calls", counted(*clients, "client"))
                    }
                    _ => String::new(),
                };
                out.push_str(&format!(
                    "Holds on {which} clients of this size: {}{larger}. Larger clients are not judged.\n",
                    report.bounds
                ));
            }
        }
        out
    }
}
