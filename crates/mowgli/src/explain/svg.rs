//! Drawings as standalone SVG: no script, no external font, readable in any browser.

use std::fmt::Write;

use super::drawing::{Arrow, Drawing, Style};

/// Widths and heights, in pixels.
const COLUMN_WIDTH: i32 = 220;
const ROW_HEIGHT: i32 = 72;
const BOX_WIDTH: i32 = 140;
const BOX_HEIGHT: i32 = 32;
const MARGIN: i32 = 24;
/// Above the first row: title, node names, thread names.
const HEADER: i32 = 110;
const LEGEND_HEIGHT: i32 = 44;
/// A character of the title, and half of one of an arrow's label, both rounded up; half the height of a label.
const TITLE_CHARACTER: i32 = 10;
const LABEL_HALF_CHARACTER: i32 = 4;
const LABEL_HALF_HEIGHT: i32 = 8;

impl Drawing {
    /// The drawing as an SVG document.
    pub fn svg(&self, title: &str) -> String {
        let rows = self.boxes.iter().map(|b| b.row + 1).max().unwrap_or(0) as i32;
        let grid = COLUMN_WIDTH * self.columns.len() as i32;
        let title_width = TITLE_CHARACTER * title.chars().count() as i32;
        let width = (grid.max(title_width) + 2 * MARGIN).max(520);
        let height = HEADER + rows * ROW_HEIGHT + LEGEND_HEIGHT + MARGIN;
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
        self.write_groups(&mut out, rows);
        for arrow in &self.arrows {
            self.write_arrow(&mut out, arrow);
        }
        for node in &self.boxes {
            let (x, y) = self.centre_of(node.column, node.row);
            let (stroke, wide) = if node.marked {
                (Style::Cycle.colour(), 2)
            } else {
                ("#333333", 1)
            };
            let _ = writeln!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"5\" fill=\"#fbfbfb\" \
                 stroke=\"{stroke}\" stroke-width=\"{wide}\"/>\n\
                 <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                x - BOX_WIDTH / 2,
                y - BOX_HEIGHT / 2,
                y + 5,
                escape(&node.label)
            );
        }
        let mut labels = Vec::new();
        for arrow in &self.arrows {
            self.write_label(&mut out, arrow, &mut labels);
        }
        self.write_legend(&mut out, height - MARGIN);
        out.push_str("</svg>\n");
        out
    }

    /// A frame around the columns of each node, with names.
    fn write_groups(&self, out: &mut String, rows: i32) {
        let mut c = 0;
        while c < self.columns.len() {
            let node = self.columns[c].node;
            let last = self.columns[c..].iter().take_while(|p| p.node == node).count();
            let x = MARGIN + COLUMN_WIDTH * c as i32 + 6;
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"44\" width=\"{}\" height=\"{}\" rx=\"10\" fill=\"#f3f6fa\" stroke=\"#b8c4d4\"/>\n\
                 <text x=\"{}\" y=\"64\" fill=\"#50607a\">node {}</text>",
                COLUMN_WIDTH * last as i32 - 12,
                HEADER - 44 + rows * ROW_HEIGHT,
                x + 12,
                node + 1
            );
            c += last;
        }
        for (c, column) in self.columns.iter().enumerate() {
            let (x, _) = self.centre_of(c, 0);
            let _ = writeln!(
                out,
                "<text x=\"{x}\" y=\"92\" text-anchor=\"middle\" font-weight=\"bold\">{}</text>",
                escape(&column.title)
            );
        }
    }

    fn write_arrow(&self, out: &mut String, arrow: &Arrow) {
        let [(x1, y1), (cx1, cy1), (cx2, cy2), (x2, y2)] = self.curve(arrow);
        let wide = if arrow.style == Style::Cycle { "2.4" } else { "1.3" };
        let _ = writeln!(
            out,
            "<path d=\"M{x1},{y1} C{cx1},{cy1} {cx2},{cy2} {x2},{y2}\" fill=\"none\" stroke=\"{}\" \
             stroke-width=\"{wide}\" marker-end=\"url(#{:?})\"/>",
            arrow.style.colour(),
            arrow.style
        );
    }

    /// The name of the relation on its curve; program order needs none.
    fn write_label(&self, out: &mut String, arrow: &Arrow, labels: &mut Vec<Label>) {
        if arrow.style == Style::ProgramOrder {
            return;
        }
        let label = self.place(arrow, labels);
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" font-size=\"12\" fill=\"{}\" stroke=\"#ffffff\" \
             stroke-width=\"4\" paint-order=\"stroke\">{}</text>",
            label.x,
            label.y + 4,
            arrow.style.colour(),
            escape(&arrow.label)
        );
        labels.push(label);
    }

    /// Where the label goes: as near to the middle of the curve as no box and no other label is in the way.
    fn place(&self, arrow: &Arrow, labels: &[Label]) -> Label {
        const PARTS: i32 = 32;
        let [a, b, c, d] = self.curve(arrow);
        let half_width = LABEL_HALF_CHARACTER * arrow.label.chars().count() as i32;
        let on_curve = |t: i32| {
            let s = PARTS - t;
            let at = |a: i32, b: i32, c: i32, d: i32| {
                (s * s * s * a + 3 * s * s * t * b + 3 * s * t * t * c + t * t * t * d)
                    / (PARTS * PARTS * PARTS)
            };
            Label {
                x: at(a.0, b.0, c.0, d.0),
                y: at(a.1, b.1, c.1, d.1),
                half_width,
            }
        };
        let from_middle = (0..PARTS / 2).flat_map(|off| [PARTS / 2 - off, PARTS / 2 + off]);
        let is_free = |label: &Label| {
            let boxes = self.boxes.iter().map(|b| self.centre_of(b.column, b.row));
            let hits_box = |at| label.overlaps(at, BOX_WIDTH / 2, BOX_HEIGHT / 2);
            let hits_label = |l: &Label| label.overlaps((l.x, l.y), l.half_width, LABEL_HALF_HEIGHT);
            !boxes.into_iter().any(hits_box) && !labels.iter().any(hits_label)
        };
        from_middle
            .map(on_curve)
            .find(is_free)
            .unwrap_or_else(|| on_curve(PARTS / 2))
    }

    /// Ends and control points of an arrow: straight down between neighbours, a bow beside the column otherwise, and from
    /// side to side between columns.
    fn curve(&self, arrow: &Arrow) -> [(i32, i32); 4] {
        let (from, to) = (&self.boxes[arrow.from], &self.boxes[arrow.to]);
        let (x1, y1) = self.centre_of(from.column, from.row);
        let (x2, y2) = self.centre_of(to.column, to.row);
        let (half_w, half_h) = (BOX_WIDTH / 2, BOX_HEIGHT / 2);
        if from.column == to.column {
            if to.row == from.row + 1 && arrow.style != Style::ProgramOrder {
                // A little beside program order's own line.
                let x = x1 + 18;
                return [
                    (x, y1 + half_h),
                    (x, y1 + half_h + 8),
                    (x, y2 - half_h - 8),
                    (x, y2 - half_h),
                ];
            }
            if to.row == from.row + 1 {
                return [
                    (x1, y1 + half_h),
                    (x1, y1 + half_h),
                    (x2, y2 - half_h),
                    (x2, y2 - half_h),
                ];
            }
            let down = to.row > from.row;
            let side = if down { 1 } else { -1 };
            let far = x1 + side * (half_w + 16 + 8 * from.row.abs_diff(to.row) as i32);
            return [
                (x1 + side * half_w, y1),
                (far, y1),
                (far, y2),
                (x2 + side * half_w, y2),
            ];
        }
        let side = if to.column > from.column { 1 } else { -1 };
        let (start, end) = (x1 + side * half_w, x2 - side * half_w);
        let reach = (end - start) / 3;
        [(start, y1), (start + reach, y1), (end - reach, y2), (end, y2)]
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

    fn centre_of(&self, column: usize, row: usize) -> (i32, i32) {
        (
            MARGIN + COLUMN_WIDTH * column as i32 + COLUMN_WIDTH / 2,
            HEADER + ROW_HEIGHT * row as i32 + ROW_HEIGHT / 2,
        )
    }
}

/// Where an arrow's label is.
struct Label {
    x: i32,
    y: i32,
    half_width: i32,
}

impl Label {
    fn overlaps(&self, (x, y): (i32, i32), half_width: i32, half_height: i32) -> bool {
        (self.x - x).abs() < self.half_width + half_width
            && (self.y - y).abs() < LABEL_HALF_HEIGHT + half_height
    }
}

/// An arrow head of each colour.
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
