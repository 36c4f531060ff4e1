//! Tests the explorer on small systems whose answers are known: counters in a grid, a puzzle of two threads,
//! faults.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use explorer::{
    Bounds, Choice, Ended, Failed, Flow, Limit, Limits, Mover, Options, Samples, Searched, System, Trials,
    estimate, sample, search,
};

/// Counters that each go from 0 to `most`, in any order.
#[derive(Clone, Copy)]
struct Grid {
    counters: usize,
    most: u8,
    /// The event in the state with this sum.
    trap: Option<(u32, Trap)>,
    /// Says that counters are independent, so that any order of them suffices.
    eager: bool,
    /// The counter that need not go on.
    optional: Option<usize>,
    ends: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Trap {
    Panic,
    Error,
    Find,
    Quit,
}

impl Grid {
    fn new(counters: usize, most: u8) -> Grid {
        Grid {
            counters,
            most,
            trap: None,
            eager: false,
            optional: None,
            ends: 0,
        }
    }

    fn states(&self) -> u64 {
        (u64::from(self.most) + 1).pow(self.counters as u32)
    }
}

impl System for Grid {
    type State = Vec<u8>;
    type Move = usize;
    type Finding = Vec<u8>;
    type Error = &'static str;
    type Collected = u64;

    fn start(&mut self) -> Result<Option<Vec<u8>>, &'static str> {
        Ok(Some(vec![0; self.counters]))
    }

    fn enabled(&mut self, state: &mut Vec<u8>, moves: &mut Vec<usize>) {
        moves.extend((0..state.len()).filter(|&i| state[i] < self.most));
    }

    fn eager(&mut self, state: &mut Vec<u8>, moves: &mut Vec<usize>) -> Option<usize> {
        self.enabled(state, moves);
        moves.first().copied().filter(|_| self.eager)
    }

    fn apply(&mut self, state: &mut Vec<u8>, what: usize) -> Result<Flow<Vec<u8>>, &'static str> {
        state[what] += 1;
        let sum: u32 = state.iter().map(|&n| u32::from(n)).sum();
        match self.trap.filter(|(at, _)| *at == sum) {
            None => Ok(Flow::On),
            Some((_, Trap::Panic)) => panic!("trapped"),
            Some((_, Trap::Error)) => Err("trapped"),
            Some((_, Trap::Find)) => Ok(Flow::Found(state.clone())),
            Some((_, Trap::Quit)) => Ok(Flow::Quit),
        }
    }

    fn end(&mut self, _: &mut Vec<u8>) -> Result<Flow<Vec<u8>>, &'static str> {
        self.ends += 1;
        Ok(Flow::On)
    }

    fn encode(&self, state: &Vec<u8>, out: &mut Vec<u8>) {
        out.extend_from_slice(state);
    }

    fn mover(&self, what: usize) -> Mover {
        Mover(what as u32)
    }

    fn is_optional(&self, _: &Vec<u8>, what: usize) -> bool {
        self.optional == Some(what)
    }

    fn is_counted(&self, what: usize) -> bool {
        self.optional != Some(what)
    }

    fn collected(self) -> u64 {
        self.ends
    }
}

/// Returns options that share work at once among so many workers.
fn workers(workers: usize) -> Options<'static> {
    Options {
        workers,
        alone: 0,
        ..Options::default()
    }
}

fn run(grid: Grid, options: &Options<'_>) -> Searched<Vec<u8>, u64> {
    search(options, || grid).unwrap()
}

#[test]
fn every_state_is_visited_once_by_any_number_of_workers() {
    let grid = Grid::new(5, 7);
    for count in [1, 2, 5] {
        let found = run(grid, &workers(count));
        assert_eq!(found.ended, Ended::Complete);
        assert_eq!((found.stats.states, found.stats.ends), (grid.states(), 1));
        assert_eq!(found.collected.iter().sum::<u64>(), 1);
        // Each state except the last has a move for each counter that is not full.
        assert_eq!(found.stats.moves, 5 * 7 * 8u64.pow(4));
        assert_eq!(found.stats.depth, 5 * 7);
    }
}

#[test]
fn eager_moves_are_passed_through() {
    let mut grid = Grid::new(5, 7);
    grid.eager = true;
    let found = run(grid, &workers(2));
    assert_eq!((found.stats.states, found.stats.moves), (1, 35));
    let options = Options {
        count_passed: true,
        ..Options::default()
    };
    assert_eq!(run(grid, &options).stats.states, 36);
}

#[test]
fn a_finding_ends_the_search() {
    let mut grid = Grid::new(6, 6);
    grid.trap = Some((20, Trap::Find));
    for count in [1, 3] {
        let found = run(grid, &workers(count));
        assert_eq!(found.ended, Ended::Quit);
        let state = found.finding.unwrap();
        assert_eq!(state.iter().map(|&n| u32::from(n)).sum::<u32>(), 20);
    }
    grid.trap = Some((20, Trap::Quit));
    let found = run(grid, &workers(3));
    assert!(found.ended == Ended::Quit && found.finding.is_none());
}

#[test]
fn what_goes_wrong_in_one_worker_ends_all() {
    let mut grid = Grid::new(6, 6);
    for count in [1, 3] {
        grid.trap = Some((20, Trap::Error));
        let failed = search(&workers(count), || grid).unwrap_err();
        assert!(matches!(failed, Failed::System("trapped")));
        grid.trap = Some((20, Trap::Panic));
        let failed = search(&workers(count), || grid).unwrap_err();
        let Failed::Panicked(payload) = failed else {
            panic!("{failed:?}");
        };
        assert_eq!(payload.downcast_ref(), Some(&"trapped"));
    }
}

#[test]
fn limits_end_the_search() {
    let grid = Grid::new(5, 7);
    for states_max in [1, 10, 5_000] {
        let options = Options {
            limits: Limits {
                states_max: Some(states_max),
                ..Limits::default()
            },
            ..workers(2)
        };
        let found = run(grid, &options);
        assert!(matches!(found.ended, Ended::Limit(Limit::States(n)) if n >= states_max));
        assert!(found.stats.states < grid.states());
    }
    let cancel = AtomicBool::new(true);
    let options = Options {
        limits: Limits {
            cancel: Some(&cancel),
            ..Limits::default()
        },
        ..workers(1)
    };
    assert_eq!(run(grid, &options).ended, Ended::Limit(Limit::Cancelled));
    let options = Options {
        depth_max: 34,
        ..workers(1)
    };
    assert_eq!(run(grid, &options).ended, Ended::Limit(Limit::Depth(34)));
}

#[test]
fn progress_ends_at_one() {
    let last = AtomicU64::new(0);
    let tell = |progress: &explorer::Progress| {
        last.fetch_max((progress.done * 1e6) as u64, Ordering::SeqCst);
    };
    let options = Options {
        progress: Some(&tell),
        ..workers(2)
    };
    assert_eq!(run(Grid::new(5, 7), &options).ended, Ended::Complete);
    assert!((999_999..=1_000_000).contains(&last.into_inner()));
}

#[test]
fn bounds_leave_executions_out_and_say_so() {
    let grid = Grid::new(3, 4);
    let within = |preemptions, delays| {
        let options = Options {
            bounds: Some(Bounds { preemptions, delays }),
            ..workers(2)
        };
        run(grid, &options)
    };
    // Without delays there is one execution, with each counter in turn.
    let found = within(None, Some(0));
    assert_eq!((found.ended, found.stats.moves), (Ended::Bounded, 12));
    // Without preemptions there is one execution for each order of the counters.
    let found = within(Some(0), None);
    assert_eq!(found.ended, Ended::Bounded);
    assert!(found.stats.moves < run(grid, &workers(1)).stats.moves);
    // These bounds are above what is possible.
    assert_eq!(within(Some(12), Some(100)).ended, Ended::Complete);
}

#[test]
fn the_first_random_finding_does_not_depend_on_the_workers() {
    let mut grid = Grid::new(4, 9);
    // Almost no path has the trap: the first counter is full while the others are empty.
    grid.trap = Some((9, Trap::Find));
    for choice in [Choice::Uniform, Choice::Priorities(3)] {
        let run = |workers| {
            let samples = Samples {
                choice,
                executions: 200,
                optional_max: 0,
                seed: 7,
                workers,
                limits: Limits::default(),
                depth_max: 1_000,
                progress: None,
            };
            sample(&samples, || grid).unwrap().finding.unwrap()
        };
        assert_eq!(run(1), run(4));
    }
}

#[test]
fn executions_that_are_cut_off_are_counted() {
    let samples = Samples {
        choice: Choice::Uniform,
        executions: 100,
        optional_max: 0,
        seed: 1,
        workers: 2,
        limits: Limits::default(),
        depth_max: 10,
        progress: None,
    };
    let sampled = sample(&samples, || Grid::new(4, 9)).unwrap();
    assert_eq!((sampled.stats.ends, sampled.cut_off), (100, 100));
    let longer = Samples {
        depth_max: 36,
        ..samples
    };
    let sampled = sample(&longer, || Grid::new(4, 9)).unwrap();
    assert_eq!((sampled.stats.ends, sampled.cut_off), (100, 0));
    assert_eq!(sampled.collected.iter().sum::<u64>(), 100);
}

#[test]
fn executions_may_end_before_optional_moves() {
    let mut grid = Grid::new(3, 4);
    grid.optional = Some(2);
    for count in [1, 3] {
        let found = run(grid, &workers(count));
        assert_eq!((found.stats.states, found.stats.ends), (grid.states(), 5));
    }
    // Optional moves do not count as delays.
    let options = Options {
        bounds: Some(Bounds {
            preemptions: None,
            delays: Some(0),
        }),
        ..workers(1)
    };
    assert_eq!(run(grid, &options).stats.ends, 5);
    let random = |optional_max| {
        let samples = Samples {
            choice: Choice::Uniform,
            executions: 50,
            optional_max,
            seed: 3,
            workers: 1,
            limits: Limits::default(),
            depth_max: 100,
            progress: None,
        };
        sample(&samples, || grid).unwrap().stats
    };
    assert_eq!((random(0).moves, random(0).depth), (50 * 8, 8));
    let some = random(2);
    assert!(some.moves > 50 * 8 && some.depth == 10, "{some:?}");
}

/// Counters of which each waits for those before it to be half done: the levels of its states differ in size, and so do the numbers
/// of moves of the states of a level.
#[derive(Clone, Copy)]
struct Stairs(Grid);

impl System for Stairs {
    type State = Vec<u8>;
    type Move = usize;
    type Finding = Vec<u8>;
    type Error = &'static str;
    type Collected = u64;

    fn start(&mut self) -> Result<Option<Vec<u8>>, &'static str> {
        self.0.start()
    }

    fn enabled(&mut self, state: &mut Vec<u8>, moves: &mut Vec<usize>) {
        let most = self.0.most;
        let may = |i: &usize| state[*i] < most && (*i == 0 || state[i - 1] >= most / 2);
        moves.extend((0..state.len()).filter(may));
    }

    fn apply(&mut self, state: &mut Vec<u8>, what: usize) -> Result<Flow<Vec<u8>>, &'static str> {
        self.0.apply(state, what)
    }

    fn end(&mut self, state: &mut Vec<u8>) -> Result<Flow<Vec<u8>>, &'static str> {
        self.0.end(state)
    }

    fn encode(&self, state: &Vec<u8>, out: &mut Vec<u8>) {
        self.0.encode(state, out);
    }

    fn mover(&self, what: usize) -> Mover {
        self.0.mover(what)
    }

    fn collected(self) -> u64 {
        self.0.ends
    }
}

/// Returns the number of executions and of states, by going through all of them.
fn size<W: System<State = Vec<u8>, Move = usize>>(mut system: W, start: Vec<u8>) -> (f64, usize) {
    let mut level = std::collections::BTreeMap::from([(start, 1.0)]);
    let (mut executions, mut states) = (0.0, 0);
    while !level.is_empty() {
        states += level.len();
        let mut next = std::collections::BTreeMap::new();
        for (mut state, paths) in std::mem::take(&mut level) {
            let mut moves = Vec::new();
            system.enabled(&mut state, &mut moves);
            executions += if moves.is_empty() { paths } else { 0.0 };
            for what in moves {
                let mut after = state.clone();
                assert!(
                    system
                        .apply(&mut after, what)
                        .is_ok_and(|flow| matches!(flow, Flow::On))
                );
                *next.entry(after).or_insert(0.0) += paths;
            }
        }
        level = next;
    }
    (executions, states)
}

fn trials(count: u32, width: usize) -> Trials<'static> {
    Trials {
        count,
        width,
        seed: 1,
        depth_max: 1000,
        limits: Limits::default(),
    }
}

/// Some hundred trials that follow few of the states of a level come within a fifth of the number of executions, and the range that
/// they give holds it. The bound for states holds.
#[test]
fn estimates_come_close_to_the_known_size() {
    let grids = [Grid::new(3, 6), Grid::new(4, 5), Grid::new(6, 3)];
    for (number, grid) in grids.into_iter().enumerate() {
        let start = vec![0; grid.counters];
        for stairs in [false, true] {
            let trials = trials(400, 8);
            let ((executions, states), found) = match stairs {
                true => (
                    size(Stairs(grid), start.clone()),
                    estimate(&trials, Stairs(grid)).unwrap().unwrap(),
                ),
                false => (
                    size(grid, start.clone()),
                    estimate(&trials, grid).unwrap().unwrap(),
                ),
            };
            let what = format!("grid {number}, stairs {stairs}: {found:?}, {executions}, {states}");
            assert!(!found.exact && found.trials == 400, "{what}");
            assert!((found.executions / executions - 1.0).abs() < 0.2, "{what}");
            let (low, high) = found.executions_range();
            assert!(low <= executions && executions <= high, "{what}");
            assert!(found.states_min <= 1.2 * states as f64, "{what}");
        }
    }
}

#[test]
fn an_estimate_that_follows_every_state_is_exact() {
    let grid = Grid::new(3, 6);
    let (executions, states) = size(grid, vec![0; 3]);
    let found = estimate(&trials(400, 1000), grid).unwrap().unwrap();
    assert!(found.exact, "{found:?}");
    assert_eq!((found.executions, found.states_min), (executions, states as f64));
    assert_eq!((found.trials, found.error), (1, 0.0));
    // Where one order of the moves suffices there is one execution.
    let eager = Grid { eager: true, ..grid };
    assert_eq!(estimate(&trials(1, 1), eager).unwrap().unwrap().executions, 1.0);
}

#[test]
fn a_limit_before_the_first_trial_ends_leaves_no_estimate() {
    let short = Trials {
        depth_max: 3,
        ..trials(10, 10)
    };
    assert_eq!(estimate(&short, Grid::new(3, 6)).unwrap(), None);
    let failing = Grid {
        trap: Some((2, Trap::Error)),
        ..Grid::new(3, 6)
    };
    assert!(matches!(
        estimate(&trials(1, 10), failing),
        Err(Failed::System("trapped"))
    ));
}
