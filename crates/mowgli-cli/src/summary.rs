//! The table at the end of `mowgli check`, its totals, and the exit status that follows from them.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Serialize;

use crate::Exit;
use crate::check::Row;

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
    /// Verdicts that a limit left open, and statements that one left unchecked.
    pub(crate) unknown: usize,
    /// Rows on which the engines contradict each other.
    pub(crate) disagreements: usize,
    /// Texts that could not be used.
    pub(crate) refused: usize,
    /// Whether Ctrl-C stopped the run.
    pub(crate) interrupted: bool,
    /// Seconds of search.
    pub(crate) time_s: f64,
}

/// Rows and their totals.
pub(crate) struct Summary<'a> {
    rows: &'a [Row],
    pub(crate) totals: Totals,
}

impl<'a> Summary<'a> {
    pub(crate) fn new(rows: &'a [Row], refused: usize, interrupted: bool) -> Summary<'a> {
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
            interrupted,
            // The conditions of one test under one setting share one search.
            time_s: rows
                .iter()
                .filter(|r| !r.name.contains('#'))
                .map(|r| r.time_s)
                .sum(),
        };
        Summary { rows, totals }
    }

    pub(crate) fn exit(&self) -> Exit {
        match &self.totals {
            t if t.differ + t.disagreements > 0 => Exit::Differs,
            t if t.refused > 0 => Exit::Refused,
            t if t.unknown > 0 || t.interrupted => Exit::Unknown,
            _ => Exit::AsStated,
        }
    }

    /// One line a condition, one column a setting.
    pub(crate) fn table(&self) -> String {
        let mut settings: Vec<&str> = Vec::new();
        let mut lines: Vec<(&str, &str, Vec<&Row>)> = Vec::new();
        for row in self.rows {
            if !settings.contains(&row.setting.as_str()) {
                settings.push(&row.setting);
            }
            match lines
                .iter_mut()
                .rev()
                .find(|(path, name, _)| *path == row.path && *name == row.name)
            {
                Some((_, _, rows)) => rows.push(row),
                None => lines.push((&row.path, &row.name, vec![row])),
            }
        }
        settings.sort_by_key(|s| s.parse::<mowgli::litmus::Setting>().ok());
        let name_width = lines
            .iter()
            .map(|(_, name, _)| name.len())
            .max()
            .unwrap_or(0)
            .max("Test".len());
        let mut out = format!("{:name_width$}", "Test");
        let widths: Vec<usize> = settings
            .iter()
            .map(|s| s.len().max("forbidden =".len()))
            .collect();
        for (setting, width) in settings.iter().zip(&widths) {
            let _ = write!(out, "  {setting:width$}");
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        for (_, name, rows) in &lines {
            let _ = write!(out, "{name:name_width$}");
            for (setting, width) in settings.iter().zip(&widths) {
                let cell = rows
                    .iter()
                    .find(|r| r.setting == *setting)
                    .map_or("-".to_owned(), |r| cell(r));
                let _ = write!(out, "  {cell:width$}");
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        let t = &self.totals;
        let _ = write!(
            out,
            "\n(= as stated, ! differs from the test's statement, # engines disagree, - or n/a: the model does not apply)\n\
             {} conditions, {} verdicts: {} as stated, {} differ, {} unknown, {} engine disagreements, {} tests refused; {:.2} s\n",
            t.conditions, t.verdicts, t.as_stated, t.differ, t.unknown, t.disagreements, t.refused, t.time_s
        );
        if t.interrupted {
            out.push_str("Interrupted: the table is not complete.\n");
        }
        out
    }
}

fn is_unknown(row: &Row) -> bool {
    let unchecked = row.expected.is_some() && row.as_expected.is_none();
    row.not_applicable.is_none() && (row.verdict.is_none() || unchecked)
}

fn cell(row: &Row) -> String {
    if row.not_applicable.is_some() {
        return "n/a".to_owned();
    }
    let verdict = row.verdict.map_or("unknown", |v| v.keyword());
    let mark = match (row.engines_disagree, row.as_expected) {
        (true, _) => " #",
        (_, Some(true)) => " =",
        (_, Some(false)) => " !",
        (_, None) => "",
    };
    format!("{verdict}{mark}")
}
