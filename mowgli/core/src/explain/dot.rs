//! Drawings in Graphviz's language.

use std::fmt::Write;

use super::drawing::{Drawing, Style};

impl Drawing {
    /// Returns the drawing as a DOT digraph: nodes are clusters, threads are columns inside them.
    pub fn dot(&self, title: &str) -> String {
        let mut out =
            String::from("digraph execution {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\"];\n");
        let _ = writeln!(out, "  label=\"{}\"; labelloc=t;", escape(title));
        for (c, column) in self.columns.iter().enumerate() {
            let first = c == 0 || self.columns[c - 1].node != column.node;
            if first {
                let n = column.node + 1;
                let _ = writeln!(
                    out,
                    "  subgraph cluster_node{n} {{\n    label=\"node {n}\"; style=rounded;"
                );
            }
            let _ = writeln!(
                out,
                "    subgraph cluster_column{c} {{\n      label=\"{}\"; color=\"#dddddd\";",
                escape(&column.title)
            );
            for (b, node) in self.boxes.iter().enumerate().filter(|(_, b)| b.column == c) {
                let colour = if node.marked {
                    Style::Cycle.colour()
                } else {
                    "#333333"
                };
                let label = escape(&node.label);
                let _ = writeln!(out, "      e{b} [label=\"{label}\", color=\"{colour}\"];");
            }
            out.push_str("    }\n");
            let last = c + 1 == self.columns.len() || self.columns[c + 1].node != column.node;
            if last {
                out.push_str("  }\n");
            }
        }
        for arrow in &self.arrows {
            let colour = arrow.style.colour();
            let width = if arrow.style == Style::Cycle { 2 } else { 1 };
            let (from, to) = (&self.boxes[arrow.from], &self.boxes[arrow.to]);
            // Only arrows down a column set the ranks. An arrow of the cycle may stand for program order
            // there.
            let free = if from.column == to.column && from.row < to.row {
                ""
            } else {
                ", constraint=false"
            };
            let _ = writeln!(
                out,
                "  e{} -> e{} [label=\"{}\", color=\"{colour}\", fontcolor=\"{colour}\", penwidth={width}{free}];",
                arrow.from,
                arrow.to,
                escape(&arrow.label)
            );
        }
        out.push_str("}\n");
        out
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
