//! The table of results, as text and as HTML: for each fabric and family of tests, the runs and the observed states
//! (as coreRMA'16 Table 6).
//!
//! Used by the command.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::Serialize;

use crate::record::Record;

/// A row: one family of tests on one fabric.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// The fabric.
    pub fabric: String,
    /// The family, or `all`.
    pub family: String,
    /// The stress.
    pub stress: String,
    /// Tests.
    pub tests: usize,
    /// Runs of these.
    pub runs: u64,
    /// Tests that showed a state that the model forbids.
    pub violated: usize,
    /// Tests that hung.
    pub hung: usize,
    /// Tests whose states the model did not judge completely.
    pub unjudged: usize,
    /// States that the model allows.
    pub allowed: usize,
    /// The allowed states that were seen.
    pub seen: usize,
    /// Time of the runs.
    pub seconds: f64,
}

impl Row {
    fn add(&mut self, record: &Record) {
        let (allowed, seen) = record.allowed();
        self.tests += 1;
        self.runs += record.runs;
        self.violated += usize::from(record.is_violated());
        self.hung += usize::from(record.hung.is_some());
        self.unjudged += usize::from(!record.judged);
        self.allowed += allowed;
        self.seen += seen;
        self.seconds += record.seconds;
    }

    /// Returns the share of the allowed states that was seen, in percent.
    pub fn share(&self) -> f64 {
        100.0 * self.seen as f64 / self.allowed.max(1) as f64
    }

    /// Returns the runs a second.
    pub fn rate(&self) -> f64 {
        self.runs as f64 / self.seconds.max(1e-9)
    }
}

/// A table: rows by fabric, stress and family, each fabric with a row for all families.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// The rows.
    pub rows: Vec<Row>,
}

impl Table {
    /// Sums results up.
    pub fn new<'a>(records: impl IntoIterator<Item = &'a Record>) -> Table {
        let mut rows: BTreeMap<(String, String, bool, String), Row> = BTreeMap::new();
        for record in records {
            for (is_family, family) in [(false, "all"), (true, &*record.family)] {
                let key = (
                    record.fabric.clone(),
                    record.stress.clone(),
                    is_family,
                    family.to_owned(),
                );
                let row = rows.entry(key).or_insert_with(|| Row {
                    fabric: record.fabric.clone(),
                    family: family.to_owned(),
                    stress: record.stress.clone(),
                    ..Row::default()
                });
                row.add(record);
            }
        }
        Table {
            rows: rows.into_values().collect(),
        }
    }

    /// Writes the table as a page that needs nothing else.
    pub fn html(&self) -> String {
        let mut out = String::from(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Litmus tests on fabrics</title>\n<style>\n\
             body { font-family: sans-serif; margin: 2em; }\n\
             table { border-collapse: collapse; }\n\
             th, td { padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd; }\n\
             th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left; }\n\
             tr.all { font-weight: bold; }\n\
             td.bad { background: #fbb; }\n\
             </style></head><body>\n<h1>Litmus tests on fabrics</h1>\n<table>\n<tr>",
        );
        for head in HEADS {
            let _ = write!(out, "<th>{head}</th>");
        }
        out.push_str("</tr>\n");
        for row in &self.rows {
            let class = if row.family == "all" { " class=\"all\"" } else { "" };
            let _ = write!(out, "<tr{class}>");
            for (column, cell) in cells(row).iter().enumerate() {
                let bad =
                    (column == VIOLATED && row.violated > 0) || (column == VIOLATED + 1 && row.hung > 0);
                let class = if bad { " class=\"bad\"" } else { "" };
                let _ = write!(out, "<td{class}>{}</td>", escaped(cell));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</table>\n</body></html>\n");
        out
    }
}

const HEADS: [&str; 11] = [
    "fabric", "stress", "family", "tests", "runs", "violated", "hung", "allowed", "seen", "share", "runs/s",
];
/// The column of violations.
const VIOLATED: usize = 5;

fn cells(row: &Row) -> [String; 11] {
    [
        row.fabric.clone(),
        row.stress.clone(),
        row.family.clone(),
        row.tests.to_string(),
        row.runs.to_string(),
        row.violated.to_string(),
        row.hung.to_string(),
        row.allowed.to_string(),
        row.seen.to_string(),
        format!("{:.1}%", row.share()),
        format!("{:.0}", row.rate()),
    ]
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![HEADS.map(str::to_owned)];
        lines.extend(self.rows.iter().map(cells));
        let width = |column: usize| {
            lines
                .iter()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
        for line in &lines {
            let cells = line.iter().zip(&widths).enumerate();
            let cells = cells.map(|(column, (cell, &width))| match column < 3 {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}
