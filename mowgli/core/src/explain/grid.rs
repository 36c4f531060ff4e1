//! Coordinates of a drawing's grid, in pixels: columns with gutters between them, rows with gaps between
//! them. Used by [`layout`](super::layout), which places everything.

/// A point, in pixels.
pub(super) type Point = (i32, i32);

/// The space around the drawing.
pub(super) const MARGIN: i32 = 24;
/// The height above the first gap, for the title, the names of nodes and the names of threads.
pub(super) const HEADER: i32 = 104;
const BOX_WIDTH_MIN: i32 = 96;
const BOX_HEIGHT_MIN: i32 = 30;
/// The distance between the ends of two arrows on one side of a box.
const PORT_DISTANCE: i32 = 9;
/// The distance between two tracks of a gutter.
const TRACK_DISTANCE: i32 = 13;
/// The distance between two tracks of a gap: a label fits between them.
const GAP_TRACK_DISTANCE: i32 = 19;
const GAP_HEIGHT_MIN: i32 = 34;
const GUTTER_WIDTH_MIN: i32 = 40;
const BOX_CHARACTER_WIDTH: i32 = 8;

/// A rectangle by its centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) half_width: i32,
    pub(super) half_height: i32,
}

impl Rect {
    pub(super) fn overlaps(&self, other: &Rect) -> bool {
        (self.x - other.x).abs() < self.half_width + other.half_width
            && (self.y - other.y).abs() < self.half_height + other.half_height
    }

    /// Returns whether a horizontal or vertical line passes through the inside.
    pub(super) fn is_crossed(&self, a: Point, b: Point) -> bool {
        let line = Rect {
            x: (a.0 + b.0) / 2,
            y: (a.1 + b.1) / 2,
            half_width: (a.0 - b.0).abs() / 2,
            half_height: (a.1 - b.1).abs() / 2,
        };
        self.overlaps(&line)
    }
}

/// The contents that the grid has room for.
pub(super) struct Size {
    /// The characters of the longest text of each column.
    pub(super) column_characters: Vec<usize>,
    /// The most ends of arrows on one side of a box, for each row.
    pub(super) row_ports: Vec<usize>,
    /// The number of tracks of each gutter.
    pub(super) gutter_tracks: Vec<usize>,
    /// Half the width of the widest label of each gutter.
    pub(super) gutter_labels: Vec<i32>,
    /// The number of tracks of each gap.
    pub(super) gap_tracks: Vec<usize>,
}

/// Coordinates of columns, gutters, rows and gaps.
pub(super) struct Grid {
    /// Left and right edge of each gutter.
    gutters: Vec<(i32, i32)>,
    gutter_tracks: Vec<usize>,
    /// Top and bottom of each gap.
    gaps: Vec<(i32, i32)>,
    gap_tracks: Vec<usize>,
    pub(super) width: i32,
    pub(super) height: i32,
}

impl Grid {
    /// Sums up the sizes. Gutters with tracks and gaps have grown `growth` times.
    pub(super) fn new(size: Size, growth: i32) -> Grid {
        let mut gutters = Vec::new();
        let mut x = MARGIN;
        for (g, &tracks) in size.gutter_tracks.iter().enumerate() {
            let tracks_width = TRACK_DISTANCE * (tracks as i32 + 1);
            let label_width = 2 * size.gutter_labels[g] + 16;
            let grown = if tracks > 0 { 8 * growth } else { 0 };
            let width = GUTTER_WIDTH_MIN.max(tracks_width).max(label_width) + grown;
            gutters.push((x, x + width));
            x += width;
            if let Some(&characters) = size.column_characters.get(g) {
                x += (BOX_CHARACTER_WIDTH * characters as i32 + 20).max(BOX_WIDTH_MIN);
            }
        }
        let mut gaps = Vec::new();
        let mut y = HEADER;
        for (gap, &tracks) in size.gap_tracks.iter().enumerate() {
            let height = (GAP_TRACK_DISTANCE * (tracks as i32 + 1)).max(GAP_HEIGHT_MIN) + 6 * growth;
            gaps.push((y, y + height));
            y += height;
            if let Some(&ports) = size.row_ports.get(gap) {
                y += (PORT_DISTANCE * (ports as i32 + 1)).max(BOX_HEIGHT_MIN);
            }
        }
        Grid {
            gutters,
            gutter_tracks: size.gutter_tracks,
            gaps,
            gap_tracks: size.gap_tracks,
            width: x + MARGIN,
            height: y,
        }
    }

    pub(super) fn rect(&self, column: usize, row: usize) -> Rect {
        let (left, right) = (self.gutters[column].1, self.gutters[column + 1].0);
        let (top, bottom) = (self.gaps[row].1, self.gaps[row + 1].0);
        Rect {
            x: (left + right) / 2,
            y: (top + bottom) / 2,
            half_width: (right - left) / 2,
            half_height: (bottom - top) / 2,
        }
    }

    pub(super) fn track_x(&self, gutter: usize, track: usize) -> i32 {
        let (left, right) = self.gutters[gutter];
        left + (right - left) * (track as i32 + 1) / (self.gutter_tracks[gutter] as i32 + 1)
    }

    pub(super) fn track_y(&self, gap: usize, track: usize) -> i32 {
        let (top, bottom) = self.gaps[gap];
        top + (bottom - top) * (track as i32 + 1) / (self.gap_tracks[gap] as i32 + 1)
    }

    /// Returns the place nearest to `x` at which a label is inside the gutter of `x`.
    pub(super) fn inside_gutter(&self, x: i32, half_width: i32) -> i32 {
        let gutter = self
            .gutters
            .iter()
            .find(|(left, right)| (left..=right).contains(&&x));
        match gutter {
            Some(&(left, right)) if right - left > 2 * half_width + 4 => {
                x.clamp(left + half_width + 2, right - half_width - 2)
            }
            _ => x,
        }
    }

    pub(super) fn frames(&self) -> Vec<(i32, i32)> {
        let middle = |&(left, right): &(i32, i32)| (left + right) / 2;
        self.gutters
            .windows(2)
            .enumerate()
            .map(|(c, pair)| {
                let left = if c == 0 { pair[0].0 } else { middle(&pair[0]) };
                let last = c + 2 == self.gutters.len();
                (left, if last { pair[1].1 } else { middle(&pair[1]) })
            })
            .collect()
    }
}
