//! Table 6 of coreRMA'16: the bounds of its test suite, and how many tests and outputs its authors had.

use crate::rules::Rule;

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The pivot.
    pub rule: Rule,
    /// Processes of the tests.
    pub processes: usize,
    /// Largest size of the tests.
    pub size: usize,
    /// Tests that the paper reports.
    pub tests: usize,
    /// Outputs of all those tests.
    pub outputs: usize,
}

const fn row(rule: Rule, processes: usize, size: usize, tests: usize, outputs: usize) -> Row {
    Row {
        rule,
        processes,
        size,
        tests,
        outputs,
    }
}

/// The rows, in the order of the table. The size of the first row of WS is not legible in the copy that was at hand: it is
/// taken to be one less than the second row's, as with R1, R2, F1, F2 and LO.
pub const ROWS: [Row; 24] = [
    row(Rule::R1, 1, 8, 863, 1492),
    row(Rule::R1, 2, 9, 1040, 3616),
    row(Rule::R2, 1, 7, 419, 532),
    row(Rule::R2, 2, 8, 684, 1514),
    row(Rule::F1, 1, 9, 326, 338),
    row(Rule::F1, 2, 10, 172, 452),
    row(Rule::F2, 1, 9, 350, 374),
    row(Rule::F2, 2, 10, 188, 492),
    row(Rule::F3, 1, 10, 810, 1320),
    row(Rule::F3, 2, 11, 200, 356),
    row(Rule::Ir, 1, 10, 104, 104),
    row(Rule::Ir, 2, 11, 127, 368),
    row(Rule::Ga, 1, 10, 299, 1091),
    row(Rule::Ga, 2, 11, 48, 624),
    row(Rule::Pg, 1, 8, 164, 276),
    row(Rule::Pg, 2, 10, 260, 1024),
    row(Rule::CasF, 1, 10, 12, 12),
    row(Rule::CasF, 2, 12, 48, 288),
    row(Rule::CasT, 1, 10, 12, 12),
    row(Rule::CasT, 2, 12, 48, 288),
    row(Rule::Lo, 1, 7, 146, 250),
    row(Rule::Lo, 2, 8, 362, 1004),
    row(Rule::Ws, 1, 9, 282, 934),
    row(Rule::Ws, 2, 10, 477, 3176),
];
