//! Places boxes, arrows and labels of a [`Drawing`], in pixels.
//!
//! Columns have gutters between them, and rows have gaps between them. Arrows run only in gutters and gaps,
//! each on a track of its own. No arrow therefore runs behind a box, and no two arrows lie on each other.
//! Labels then take the free place nearest to the middle of their arrow. Where there is none, gutters and
//! gaps grow. Used by [`Drawing::svg`].

use super::drawing::{Arrow, Drawing, Style};
use super::grid::{Grid, Point, Rect, Size};

/// The distance between two arrows straight down from one box to the next.
const PARALLEL_DISTANCE: i32 = 24;
/// Half a character of a label, rounded up.
const LABEL_HALF_CHARACTER: i32 = 4;
const LABEL_HALF_HEIGHT: i32 = 8;
/// The number of times that gutters and gaps may grow.
const ATTEMPTS_MAX: i32 = 12;

/// The place of everything in a drawing.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) width: i32,
    pub(super) height: i32,
    /// Left and right edge of each column with half of its gutters: the frames of the nodes.
    pub(super) frames: Vec<(i32, i32)>,
    /// One rectangle a box.
    pub(super) boxes: Vec<Rect>,
    /// The corners of each arrow.
    pub(super) paths: Vec<Vec<Point>>,
    /// The place of each arrow's label; program order has none.
    pub(super) labels: Vec<Option<Rect>>,
}

/// The way of an arrow through the grid. Gutter `g` is left of column `g`, gap `r` above row `r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// Straight down to the next row of its column.
    Down,
    /// Along one gutter.
    Gutter(usize),
    /// Along a gutter, a gap and another gutter.
    Across(usize, usize, usize),
}

/// An end of an arrow on the side of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Port {
    arrow: usize,
    is_start: bool,
    is_right: bool,
    /// The direction of the arrow from here, in half rows. Ends are in this order from top to bottom.
    towards: usize,
}

/// The courses, ports and tracks, which do not depend on sizes.
struct Plan<'a> {
    drawing: &'a Drawing,
    rows: usize,
    courses: Vec<Course>,
    /// The ports of each box.
    ports: Vec<Vec<Port>>,
    /// The number of tracks of each gutter.
    gutter_tracks: Vec<usize>,
    /// The number of tracks of each gap.
    gap_tracks: Vec<usize>,
    /// The tracks of each arrow in its first gutter, gap and second gutter.
    tracks: Vec<[usize; 3]>,
    /// Half the width of the widest label along each gutter.
    gutter_labels: Vec<i32>,
}

/// Places everything.
pub(super) fn layout(drawing: &Drawing) -> Layout {
    let plan = Plan::new(drawing);
    let mut best: Option<(usize, Layout)> = None;
    for attempt in 0..ATTEMPTS_MAX {
        let (layout, collisions) = plan.place(attempt);
        if best.as_ref().is_none_or(|(least, _)| collisions < *least) {
            best = Some((collisions, layout));
        }
        if collisions == 0 {
            break;
        }
    }
    match best {
        Some((_, layout)) => layout,
        None => plan.place(0).0,
    }
}

/// Returns the row's middle and the gap's middle in half rows.
fn middle_of_row(row: usize) -> usize {
    2 * row + 1
}

fn middle_of_gap(gap: usize) -> usize {
    2 * gap
}

impl<'a> Plan<'a> {
    fn new(drawing: &'a Drawing) -> Plan<'a> {
        let rows = drawing.boxes.iter().map(|b| b.row + 1).max().unwrap_or(0);
        let courses: Vec<Course> = drawing.arrows.iter().map(|a| course(drawing, a)).collect();
        let mut plan = Plan {
            drawing,
            rows,
            ports: ports(drawing, &courses),
            gutter_tracks: vec![0; drawing.columns.len() + 1],
            gap_tracks: vec![0; rows + 1],
            tracks: vec![[0; 3]; courses.len()],
            gutter_labels: vec![0; drawing.columns.len() + 1],
            courses,
        };
        plan.assign_tracks();
        plan
    }

    /// Gives each run along a gutter or gap the first track on which it meets no other.
    fn assign_tracks(&mut self) {
        let mut gutters: Vec<Vec<(usize, usize, usize, usize)>> = vec![Vec::new(); self.gutter_tracks.len()];
        let mut gaps: Vec<Vec<(usize, usize, usize, usize)>> = vec![Vec::new(); self.gap_tracks.len()];
        for (i, arrow) in self.drawing.arrows.iter().enumerate() {
            let (from, to) = (&self.drawing.boxes[arrow.from], &self.drawing.boxes[arrow.to]);
            let (start, end) = (middle_of_row(from.row), middle_of_row(to.row));
            match self.courses[i] {
                Course::Down => {}
                Course::Gutter(g) => {
                    gutters[g].push((start.min(end), start.max(end), i, 0));
                    let label = LABEL_HALF_CHARACTER * arrow.label.chars().count() as i32;
                    self.gutter_labels[g] = self.gutter_labels[g].max(label);
                }
                Course::Across(first, gap, second) => {
                    let turn = middle_of_gap(gap);
                    gutters[first].push((start.min(turn), start.max(turn), i, 0));
                    gaps[gap].push((first.min(second), first.max(second), i, 1));
                    gutters[second].push((end.min(turn), end.max(turn), i, 2));
                }
            }
        }
        for (runs, counts) in [(gutters, &mut self.gutter_tracks), (gaps, &mut self.gap_tracks)] {
            for (mut runs, count) in runs.into_iter().zip(counts) {
                runs.sort_unstable();
                let mut ends: Vec<usize> = Vec::new();
                for (low, high, arrow, part) in runs {
                    let free = ends.iter().position(|&end| end < low);
                    let track = free.unwrap_or(ends.len());
                    match free {
                        Some(track) => ends[track] = high,
                        None => ends.push(high),
                    }
                    self.tracks[arrow][part] = track;
                }
                *count = ends.len();
            }
        }
    }

    fn size(&self) -> Size {
        let Drawing { columns, boxes, .. } = self.drawing;
        let characters = |column: usize| {
            let labels = boxes.iter().filter(|b| b.column == column).map(|b| &b.label);
            let texts = labels.chain([&columns[column].title]);
            texts.map(|t| t.chars().count()).max().unwrap_or(0)
        };
        let ports = |row: usize| {
            let of_row = (0..boxes.len()).filter(|&b| boxes[b].row == row);
            let most = |b: usize| {
                let right = self.ports[b].iter().filter(|p| p.is_right).count();
                right.max(self.ports[b].len() - right)
            };
            of_row.map(most).max().unwrap_or(0)
        };
        Size {
            column_characters: (0..columns.len()).map(characters).collect(),
            row_ports: (0..self.rows).map(ports).collect(),
            gutter_tracks: self.gutter_tracks.clone(),
            gutter_labels: self.gutter_labels.clone(),
            gap_tracks: self.gap_tracks.clone(),
        }
    }

    /// Places everything with gutters and gaps that have grown `growth` times. Returns the number of labels
    /// that collide.
    fn place(&self, growth: i32) -> (Layout, usize) {
        let grid = Grid::new(self.size(), growth);
        let boxes: Vec<Rect> = self
            .drawing
            .boxes
            .iter()
            .map(|b| grid.rect(b.column, b.row))
            .collect();
        let paths: Vec<Vec<Point>> = (0..self.courses.len())
            .map(|i| self.path(i, &grid, &boxes))
            .collect();
        let mut layout = Layout {
            width: grid.width,
            height: grid.height,
            frames: grid.frames(),
            boxes,
            paths,
            labels: Vec::new(),
        };
        let mut collisions = 0;
        for (i, arrow) in self.drawing.arrows.iter().enumerate() {
            if arrow.style == Style::ProgramOrder {
                layout.labels.push(None);
                continue;
            }
            let (label, cost) = self.label(i, &grid, &layout);
            collisions += usize::from(cost >= COLLISION);
            layout.labels.push(Some(label));
        }
        (layout, collisions)
    }

    /// Returns the corners of an arrow.
    fn path(&self, arrow: usize, grid: &Grid, boxes: &[Rect]) -> Vec<Point> {
        let Arrow { from, to, .. } = self.drawing.arrows[arrow];
        let [first, gap_track, second] = self.tracks[arrow];
        if self.courses[arrow] == Course::Down {
            let x = boxes[from].x + self.parallel_offset(arrow);
            let (top, bottom) = (
                boxes[from].y + boxes[from].half_height,
                boxes[to].y - boxes[to].half_height,
            );
            return vec![(x, top), (x, bottom)];
        }
        let (start, end) = (self.port(arrow, true, boxes), self.port(arrow, false, boxes));
        let mut path = vec![start];
        match self.courses[arrow] {
            Course::Down => {}
            Course::Gutter(g) => {
                let x = grid.track_x(g, first);
                path.extend([(x, start.1), (x, end.1)]);
            }
            Course::Across(g, gap, h) => {
                let (x1, y, x2) = (
                    grid.track_x(g, first),
                    grid.track_y(gap, gap_track),
                    grid.track_x(h, second),
                );
                path.extend([(x1, start.1), (x1, y), (x2, y), (x2, end.1)]);
            }
        }
        path.push(end);
        path.dedup();
        path
    }

    /// Returns how far from the middle an arrow straight down runs beside the others between the same boxes.
    fn parallel_offset(&self, arrow: usize) -> i32 {
        let Arrow { from, to, .. } = self.drawing.arrows[arrow];
        let same: Vec<usize> = (0..self.courses.len())
            .filter(|&i| (self.drawing.arrows[i].from, self.drawing.arrows[i].to) == (from, to))
            .collect();
        let place = same.iter().position(|&i| i == arrow).unwrap_or(0) as i32;
        PARALLEL_DISTANCE * (2 * place - (same.len() as i32 - 1)) / 2
    }

    /// Returns the point at which an arrow leaves or enters its box.
    fn port(&self, arrow: usize, is_start: bool, boxes: &[Rect]) -> Point {
        let Arrow { from, to, .. } = self.drawing.arrows[arrow];
        let at = if is_start { from } else { to };
        let own = |p: &&Port| p.arrow == arrow && p.is_start == is_start;
        let rect = &boxes[at];
        let Some(port) = self.ports[at].iter().find(own) else {
            return (rect.x, rect.y);
        };
        let side: Vec<&Port> = self.ports[at]
            .iter()
            .filter(|p| p.is_right == port.is_right)
            .collect();
        let place = side.iter().position(|p| *p == port).unwrap_or(0) as i32;
        let y = rect.y - rect.half_height + 2 * rect.half_height * (place + 1) / (side.len() as i32 + 1);
        let x = rect.x
            + if port.is_right {
                rect.half_width
            } else {
                -rect.half_width
            };
        (x, y)
    }

    /// Returns the best place for an arrow's label, and the cost of its collisions.
    fn label(&self, arrow: usize, grid: &Grid, layout: &Layout) -> (Rect, usize) {
        let half_width = LABEL_HALF_CHARACTER * self.drawing.arrows[arrow].label.chars().count() as i32;
        let at = |x: i32, y: i32| Rect {
            x,
            y,
            half_width,
            half_height: LABEL_HALF_HEIGHT,
        };
        let path = &layout.paths[arrow];
        let mut places: Vec<Rect> = Vec::new();
        if self.courses[arrow] == Course::Down {
            let (x, y) = (path[0].0, (path[0].1 + path[1].1) / 2);
            places.extend([at(x + half_width + 5, y), at(x - half_width - 5, y)]);
        }
        let mut segments: Vec<(Point, Point)> = path.windows(2).map(|w| (w[0], w[1])).collect();
        segments.sort_by_key(|(a, b)| -((a.0 - b.0).abs() + (a.1 - b.1).abs()));
        for (a, b) in segments {
            for step in 0..24 {
                // The offsets go from the middle outwards, and a little beyond both ends.
                let offset = if step % 2 == 0 { step / 2 } else { -(step + 1) / 2 };
                let along = |a: i32, b: i32| (a + b) / 2 + (b - a) * offset / 24;
                let (x, y) = (along(a.0, b.0), along(a.1, b.1));
                let x = if a.0 == b.0 {
                    grid.inside_gutter(x, half_width)
                } else {
                    x
                };
                places.push(at(x, y));
                if (a.1 - b.1).abs() < 4 * LABEL_HALF_HEIGHT {
                    places.push(at(x, y + LABEL_HALF_HEIGHT * offset / 2));
                }
            }
        }
        let cost = |place: &Rect| {
            let boxes = layout.boxes.iter().filter(|b| b.overlaps(place)).count();
            let labels = layout
                .labels
                .iter()
                .flatten()
                .filter(|l| l.overlaps(place))
                .count();
            let others = layout.paths.iter().enumerate().filter(|&(i, _)| i != arrow);
            let crossed = others
                .filter(|(_, path)| path.windows(2).any(|w| place.is_crossed(w[0], w[1])))
                .count();
            COLLISION * (boxes + labels) + crossed
        };
        let mut best = (at(path[0].0, path[0].1), usize::MAX);
        for place in places {
            let cost = cost(&place);
            if cost < best.1 {
                best = (place, cost);
            }
            if cost == 0 {
                break;
            }
        }
        best
    }
}

/// Cost of a label on a box or on another label; one on an arrow costs 1.
const COLLISION: usize = 10_000;

fn course(drawing: &Drawing, arrow: &Arrow) -> Course {
    let (from, to) = (&drawing.boxes[arrow.from], &drawing.boxes[arrow.to]);
    if from.column == to.column {
        return match to.row {
            row if row == from.row + 1 => Course::Down,
            row if row > from.row => Course::Gutter(from.column + 1),
            _ => Course::Gutter(from.column),
        };
    }
    let rightwards = to.column > from.column;
    let (leave, enter) = match rightwards {
        true => (from.column + 1, to.column),
        false => (from.column, to.column + 1),
    };
    if leave == enter {
        return Course::Gutter(leave);
    }
    let below = to.row > from.row;
    Course::Across(leave, from.row + usize::from(below), enter)
}

/// Returns the ends of arrows on each box, from top to bottom.
fn ports(drawing: &Drawing, courses: &[Course]) -> Vec<Vec<Port>> {
    let mut ports: Vec<Vec<Port>> = vec![Vec::new(); drawing.boxes.len()];
    for (i, arrow) in drawing.arrows.iter().enumerate() {
        let (from, to) = (&drawing.boxes[arrow.from], &drawing.boxes[arrow.to]);
        let (leave, turns, enter) = match courses[i] {
            Course::Down => continue,
            Course::Gutter(g) => (g, [middle_of_row(to.row), middle_of_row(from.row)], g),
            Course::Across(g, gap, h) => (g, [middle_of_gap(gap); 2], h),
        };
        ports[arrow.from].push(Port {
            arrow: i,
            is_start: true,
            is_right: leave > from.column,
            towards: turns[0],
        });
        ports[arrow.to].push(Port {
            arrow: i,
            is_start: false,
            is_right: enter > to.column,
            towards: turns[1],
        });
    }
    for side in &mut ports {
        side.sort_by_key(|p| (p.towards, p.arrow));
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::check::applicable;
    use crate::explain;
    use crate::litmus::Setting;
    use crate::model::{Model, RmwAtomicity};
    use crate::outcome::Budget;

    /// Returns every picture that the catalogue gives under two models: of witnesses, and of each cycle.
    fn drawings() -> Vec<(String, Drawing)> {
        let mut all = Vec::new();
        let budget = Budget {
            states_max: Some(20_000),
            ..Budget::default()
        };
        for entry in catalogue::entries() {
            let test = entry.parse().unwrap();
            for model in [Model::RdmaTso, Model::RdmaWait] {
                let setting = Setting {
                    model,
                    rmw: RmwAtomicity::Hca,
                };
                if applicable(&test.program, model).is_err() {
                    continue;
                }
                for query in &test.queries {
                    let wanted = &query.condition.formula;
                    match explain::allowed(&test.program, setting, wanted, &budget) {
                        Ok(Some(witness)) => all.push((test.name.clone(), witness.drawing(&test.program))),
                        Ok(None) => {
                            let reason = explain::forbidden(&test.program, setting, wanted, &budget);
                            let cycles = 0..reason.cases.len();
                            let of_cycles = cycles.filter_map(|i| reason.drawing(&test.program, i));
                            all.extend(of_cycles.map(|drawing| (test.name.clone(), drawing)));
                        }
                        Err(_) => {}
                    }
                }
            }
        }
        all
    }

    #[test]
    fn no_arrow_runs_behind_a_box_and_no_label_is_on_anything() {
        let drawings = drawings();
        assert!(drawings.len() > 150, "{}", drawings.len());
        for (name, drawing) in &drawings {
            let layout = layout(drawing);
            for (path, arrow) in layout.paths.iter().zip(&drawing.arrows) {
                for (line, rect) in path
                    .windows(2)
                    .flat_map(|w| layout.boxes.iter().map(move |b| (w, b)))
                {
                    assert!(
                        !rect.is_crossed(line[0], line[1]),
                        "{name}: {arrow:?} runs behind a box"
                    );
                }
            }
            let labels: Vec<&Rect> = layout.labels.iter().flatten().collect();
            for (i, label) in labels.iter().enumerate() {
                assert!(
                    !layout.boxes.iter().any(|b| b.overlaps(label)),
                    "{name}: a label is on a box"
                );
                let other = labels[..i].iter().find(|other| other.overlaps(label));
                assert_eq!(other, None, "{name}: two labels collide");
            }
        }
    }

    #[test]
    fn no_two_arrows_lie_on_each_other() {
        for (name, drawing) in &drawings() {
            let layout = layout(drawing);
            let vertical = |path: &Vec<Point>| {
                let lines: Vec<(i32, i32, i32)> = path
                    .windows(2)
                    .filter(|w| w[0].0 == w[1].0)
                    .map(|w| (w[0].0, w[0].1.min(w[1].1), w[0].1.max(w[1].1)))
                    .collect();
                lines
            };
            for (i, path) in layout.paths.iter().enumerate() {
                for (x, top, bottom) in vertical(path) {
                    for (other, low, high) in layout.paths[..i].iter().flat_map(vertical) {
                        assert!(x != other || bottom <= low || high <= top, "{name}");
                    }
                }
            }
        }
    }
}
