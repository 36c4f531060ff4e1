//! Drawings as standalone SVG: no script, no external font, readable in any browser. [`layout`] places everything.
//!
//! Programs that show a drawing find its parts by class and data: boxes are `event` with `data-event`, arrows and their labels have the
//! name of their style as a class, `data-from` and `data-to` (events).

use std::fmt::Write;

use super::drawing::{Drawing, Style};
use super::grid::{HEADER, MARGIN, Point};
use super::layout::{Layout, layout};

const LEGEND_HEIGHT: i32 = 40;
/// A character of the title, rounded up.
const TITLE_CHARACTER: i32 = 10;
/// Radius of an arrow's corners.
const CORNER: i32 = 6;

impl Drawing {
    /// Returns the drawing as an SVG document.
    pub fn svg(&self, title: &str) -> String {
        let layout = layout(self);
        let title_width = TITLE_CHARACTER * title.chars().count() as i32 + 2 * MARGIN;
        let width = layout.width.max(title_width).max(520);
        let height = layout.height + LEGEND_HEIGHT + MARGIN;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"13\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        );
        write_markers(&mut out);
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"28\" font-size=\"15\" font-weight=\"bold\">{}</text>",
            escape(title)
        );
        self.write_groups(&mut out, &layout);
        // The cycle is drawn last, over the arrows that cross it.
        let mut order: Vec<usize> = (0..self.arrows.len()).collect();
        order.sort_by_key(|&i| self.arrows[i].style == Style::Cycle);
        for &i in &order {
            let style = self.arrows[i].style;
            let wide = if style == Style::Cycle { "2.4" } else { "1.3" };
            let _ = writeln!(
                out,
                "<path {} d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{wide}\" marker-end=\"url(#{style:?})\"/>",
                self.marks(i),
                path_data(&layout.paths[i]),
                style.colour()
            );
        }
        self.write_boxes(&mut out, &layout);
        for (i, (arrow, label)) in self.arrows.iter().zip(&layout.labels).enumerate() {
            if let Some(label) = label {
                let _ = writeln!(
                    out,
                    "<text {} x=\"{}\" y=\"{}\" text-anchor=\"middle\" font-size=\"12\" fill=\"{}\" stroke=\"#ffffff\" \
                     stroke-width=\"4\" paint-order=\"stroke\">{}</text>",
                    self.marks(i),
                    label.x,
                    label.y + 4,
                    arrow.style.colour(),
                    escape(&arrow.label)
                );
            }
        }
        self.write_legend(&mut out, height - MARGIN);
        out.push_str("</svg>\n");
        out
    }

    /// Returns the attributes by which an arrow and its label are found.
    fn marks(&self, arrow: usize) -> String {
        let arrow = &self.arrows[arrow];
        format!(
            "class=\"arrow {}\" data-from=\"{}\" data-to=\"{}\"",
            arrow.style.name(),
            self.boxes[arrow.from].event,
            self.boxes[arrow.to].event
        )
    }

    fn write_boxes(&self, out: &mut String, layout: &Layout) {
        for (node, rect) in self.boxes.iter().zip(&layout.boxes) {
            let (stroke, wide) = if node.marked {
                (Style::Cycle.colour(), 2)
            } else {
                ("#333333", 1)
            };
            let _ = writeln!(
                out,
                "<g class=\"event\" data-event=\"{}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\" fill=\"#fbfbfb\" \
                 stroke=\"{stroke}\" stroke-width=\"{wide}\"/>\n\
                 <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text></g>",
                node.event,
                rect.x - rect.half_width,
                rect.y - rect.half_height,
                2 * rect.half_width,
                2 * rect.half_height,
                rect.x,
                rect.y + 5,
                escape(&node.label)
            );
        }
    }

    /// Draws a frame around the columns of each node, with names.
    fn write_groups(&self, out: &mut String, layout: &Layout) {
        let mut c = 0;
        while c < self.columns.len() {
            let node = self.columns[c].node;
            let count = self.columns[c..].iter().take_while(|p| p.node == node).count();
            let (left, right) = (layout.frames[c].0 + 4, layout.frames[c + count - 1].1 - 4);
            let _ = writeln!(
                out,
                "<rect x=\"{left}\" y=\"44\" width=\"{}\" height=\"{}\" rx=\"10\" fill=\"#f3f6fa\" stroke=\"#b8c4d4\"/>\n\
                 <text x=\"{}\" y=\"64\" fill=\"#50607a\">node {}</text>",
                right - left,
                layout.height - 44,
                left + 12,
                node + 1
            );
            c += count;
        }
        for (c, column) in self.columns.iter().enumerate() {
            let middle = self
                .boxes
                .iter()
                .position(|b| b.column == c)
                .map(|b| layout.boxes[b].x);
            let (left, right) = layout.frames[c];
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" font-weight=\"bold\">{}</text>",
                middle.unwrap_or((left + right) / 2),
                HEADER - 12,
                escape(&column.title)
            );
        }
    }

    fn write_legend(&self, out: &mut String, y: i32) {
        let mut x = MARGIN;
        for (style, name) in Style::LEGEND {
            if self.arrows.iter().any(|a| a.style == style) {
                let _ = writeln!(
                    out,
                    "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{}\" stroke-width=\"2\"/>\n\
                     <text x=\"{}\" y=\"{}\" font-size=\"12\">{name}</text>",
                    x + 24,
                    style.colour(),
                    x + 30,
                    y + 4
                );
                x += 48 + 8 * name.len() as i32;
            }
        }
    }
}

/// Returns a path through the points with rounded corners.
fn path_data(points: &[Point]) -> String {
    let mut data = String::new();
    for (i, &(x, y)) in points.iter().enumerate() {
        let (Some(&before), Some(&after)) = (i.checked_sub(1).and_then(|j| points.get(j)), points.get(i + 1))
        else {
            let _ = write!(data, "{}{x},{y}", if i == 0 { "M" } else { " L" });
            continue;
        };
        let (from, to) = (towards((x, y), before), towards((x, y), after));
        let _ = write!(data, " L{},{} Q{x},{y} {},{}", from.0, from.1, to.0, to.1);
    }
    data
}

/// Returns the point on the way to the next one at which a corner's curve begins.
fn towards((x, y): Point, (to_x, to_y): Point) -> Point {
    let reach = |d: i32| (d / 2).clamp(-CORNER, CORNER);
    (x + reach(to_x - x), y + reach(to_y - y))
}

/// Defines an arrow head for each colour.
fn write_markers(out: &mut String) {
    out.push_str("<defs>\n");
    for (style, _) in Style::LEGEND {
        let _ = writeln!(
            out,
            "<marker id=\"{style:?}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" \
             orient=\"auto-start-reverse\" markerUnits=\"userSpaceOnUse\"><path d=\"M0,0 L10,5 L0,10 z\" fill=\"{}\"/></marker>",
            style.colour()
        );
    }
    out.push_str("</defs>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
