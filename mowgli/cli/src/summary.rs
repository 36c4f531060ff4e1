//! The table at the end of `mowgli check`, its totals, and the exit status that follows from them.

use mowgli::counted::counted;
use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Serialize;

use crate::budget::Stop;
use crate::row::Row;
use crate::{Exit, output};

/// Counts over all rows.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Totals {
    /// Conditions checked, each under some settings.
    pub(crate) conditions: usize,
    /// Verdicts given.
    pub(crate) verdicts: usize,
    /// Verdicts that a test states and that are right.
    pub(crate) as_stated: usize,
    /// Verdicts that a test states and that are wrong.
    pub(crate) differ: usize,
    /// Verdicts that a limit left open, and stated verdicts that a limit left unchecked.
    pub(crate) unknown: usize,
    /// Rows on which the engines contradict each other.
    pub(crate) disagreements: usize,
    /// Texts that could not be used.
    pub(crate) refused: usize,
    /// Rows whose test has no execution that reaches the end.
    pub(crate) vacuous: usize,
    /// Why the run ended early, if it did: Ctrl-C or the total limit.
    pub(crate) stopped: Option<String>,
    /// Searches (a test under a model) that were never begun.
    pub(crate) not_begun: usize,
    /// Seconds of search.
    pub(crate) time_s: f64,
}

/// Rows and their totals.
pub(crate) struct Summary<'a> {
    rows: &'a [Row],
    stopped: Option<Stop>,
    pub(crate) totals: Totals,
}

impl<'a> Summary<'a> {
    pub(crate) fn new(
        rows: &'a [Row],
        refused: usize,
        stopped: Option<Stop>,
        not_begun: usize,
    ) -> Summary<'a> {
        let count = |f: fn(&Row) -> bool| rows.iter().filter(|r| f(r)).count();
        let names: BTreeSet<(&str, &str)> = rows.iter().map(|r| (r.path.as_str(), r.name.as_str())).collect();
        let totals = Totals {
            conditions: names.len(),
            verdicts: count(|r| r.verdict.is_some()),
            as_stated: count(|r| r.as_expected == Some(true)),
            differ: count(|r| r.as_expected == Some(false)),
            unknown: count(is_unknown),
            disagreements: count(|r| r.engines_disagree),
            refused,
            vacuous: count(|r| r.vacuous),
            stopped: stopped.map(|s| s.to_string()),
            not_begun,
            // The conditions of one test under one setting share one search.
            time_s: rows
                .iter()
                .filter(|r| !r.name.contains('#'))
                .map(|r| r.time_s)
                .fold(0.0, |sum, time| sum + time), // The sum of nothing is -0.0.
        };
        Summary {
            rows,
            stopped,
            totals,
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match &self.totals {
            t if t.differ + t.vacuous + t.disagreements > 0 => Exit::Differs,
            t if t.refused > 0 => Exit::Refused,
            t if t.unknown > 0 || self.stopped.is_some() => Exit::Unknown,
            _ => Exit::AsStated,
        }
    }

    /// Writes the table, with one line for each condition and one column for each setting, and then the totals. Columns that do not fit
    /// the width go into further blocks, each with the names in front.
    pub(crate) fn table(&self, width: Option<usize>) -> String {
        let mut settings: Vec<&str> = Vec::new();
        let mut lines: Vec<Line<'_>> = Vec::new();
        for row in self.rows {
            if !settings.contains(&row.setting.as_str()) {
                settings.push(&row.setting);
            }
            let of_row = |line: &&mut Line<'_>| line.path == row.path && line.name == row.name;
            match lines.iter_mut().rev().find(of_row) {
                Some(line) => line.rows.push(row),
                None => lines.push(Line {
                    path: &row.path,
                    name: &row.name,
                    rows: vec![row],
                }),
            }
        }
        // Settings of RDMA first, then the models of coreRMA, then model files in the order of the command line.
        settings.sort_by_key(|s| {
            let rdma = s.parse::<mowgli::litmus::Setting>();
            let corerma = s.parse::<mowgli_corerma::switches::Model>();
            (rdma.is_err(), rdma.ok(), corerma.is_err(), corerma.ok())
        });
        let name_width = lines
            .iter()
            .map(|l| l.name.len())
            .max()
            .unwrap_or(0)
            .max(NAMES.len());
        let mut out = String::new();
        for columns in blocks(&settings, name_width, width) {
            write_block(&mut out, columns, &lines, name_width);
        }
        out.push_str(&wrap_to(LEGEND, width));
        out.push_str(&wrap_to(&self.totals_line(), width));
        let unknown = self.rows.iter().filter(|row| is_unknown(row));
        let limits: BTreeSet<&str> = unknown.filter_map(|row| row.limit.as_deref()).collect();
        for limit in limits {
            out.push_str(&wrap_to(&format!("Unknown: {limit}.\n"), width));
        }
        match self.stopped {
            None => {}
            Some(Stop::Interrupted) => out.push_str("Interrupted: the table is not complete.\n"),
            Some(Stop::Total) => {
                let left = self.totals.not_begun;
                let _ = writeln!(
                    out,
                    "The total limit ended the run: {left} of the searches were not begun."
                );
            }
        }
        out
    }

    fn totals_line(&self) -> String {
        let t = &self.totals;
        format!(
            "{}, {}: {} as stated, {} differ, {} unknown, {} vacuous, {}, \
             {} refused; {:.2} s\n",
            counted(t.conditions, "condition"),
            counted(t.verdicts, "verdict"),
            t.as_stated,
            t.differ,
            t.unknown,
            t.vacuous,
            counted(t.disagreements, "engine disagreement"),
            counted(t.refused, "test"),
            t.time_s
        )
    }
}

/// Heading of the names.
const NAMES: &str = "Test";

/// The meaning of the marks in the cells.
const LEGEND: &str = "(= as stated; ! differs from the test's statement; # engines disagree; vacuous: no execution reaches the end; \
    - or n/a: the model does not apply)\n";

/// A condition's rows, one for each setting.
struct Line<'a> {
    path: &'a str,
    name: &'a str,
    rows: Vec<&'a Row>,
}

/// Groups the settings so that each group fits the width beside the names; a group has at least one.
fn blocks<'s, 'a>(settings: &'s [&'a str], name_width: usize, width: Option<usize>) -> Vec<&'s [&'a str]> {
    let Some(width) = width else {
        return vec![settings];
    };
    let mut blocks = Vec::new();
    let mut rest = settings;
    while !rest.is_empty() {
        let mut used = name_width;
        let fits = |s: &&&str| {
            used += 2 + column_width(s);
            used <= width
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (block, after) = rest.split_at(count);
        blocks.push(block);
        rest = after;
    }
    blocks
}

fn column_width(setting: &str) -> usize {
    setting.len().max("forbidden =".len())
}

fn write_block(out: &mut String, settings: &[&str], lines: &[Line<'_>], name_width: usize) {
    let mut write_line = |name: &str, cell_of: &dyn Fn(&str) -> String| {
        let mut line = format!("{name:name_width$}");
        for setting in settings {
            let _ = write!(line, "  {:1$}", cell_of(setting), column_width(setting));
        }
        let _ = writeln!(out, "{}", line.trim_end());
    };
    write_line(NAMES, &|setting| setting.to_owned());
    for line in lines {
        write_line(line.name, &|setting| {
            let row = line.rows.iter().find(|r| r.setting == setting);
            row.map_or("-".to_owned(), |r| cell(r))
        });
    }
    out.push('\n');
}

fn wrap_to(text: &str, width: Option<usize>) -> String {
    width.map_or_else(|| text.to_owned(), |width| output::wrapped(text, width, Some(0)))
}

fn is_unknown(row: &Row) -> bool {
    let unchecked = row.expected.is_some() && row.as_expected.is_none();
    row.not_applicable.is_none() && !row.vacuous && (row.verdict.is_none() || unchecked)
}

fn cell(row: &Row) -> String {
    if row.not_applicable.is_some() {
        return "n/a".to_owned();
    }
    let verdict = match (row.verdict, row.vacuous) {
        (_, true) => "vacuous",
        (Some(verdict), _) => verdict.keyword(),
        (None, _) => "unknown",
    };
    let mark = match (row.engines_disagree, row.as_expected) {
        (true, _) => " #",
        (_, Some(true)) => " =",
        (_, Some(false)) => " !",
        (_, None) => "",
    };
    format!("{verdict}{mark}")
}
