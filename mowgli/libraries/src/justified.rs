//! Leaves out choices of runs in which a call returns a value that nobody provides.
//!
//! Each thread is run alone, with every result that some run of some thread might justify ([`crate::plain`]). Most choices
//! of one run for each thread then have a read of a value that none of the chosen runs writes. They have no consistent
//! execution, and are recognised here without a search: a value may be found at a location only if it is the initial one,
//! or a chosen run writes it there, or copies it there from where it may be found.
//!
//! Used by the searches of [`crate::outcomes`] and [`crate::local`].

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use mowgli::outcome::{Budget, Limit};
use smallvec::SmallVec;

use crate::client::Client;
use crate::event::Loc;
use crate::execution::Flow;
use crate::library::{Effect, initial};
use crate::plain::{Plain, ThreadRun};
use crate::value::Value;

/// The most values that are told apart; choices of plain executions with more are not filtered.
const VALUES_MAX: usize = 64;

/// The budget of a search, looked at now and then.
pub(crate) struct Watch<'b> {
    budget: Budget<'b>,
    looks: Cell<u64>,
    limit: RefCell<Option<Limit>>,
}

/// The choices between two looks at the clock.
const CHOICES_BETWEEN_LOOKS: u64 = 256;

impl<'b> Watch<'b> {
    /// Returns a watch over this budget.
    pub(crate) fn new(budget: Budget<'b>) -> Watch<'b> {
        Watch {
            budget,
            looks: Cell::new(0),
            limit: RefCell::new(None),
        }
    }

    /// Counts a choice, and returns whether the budget is used up.
    fn is_over(&self) -> bool {
        let looks = self.looks.get() + 1;
        self.looks.set(looks);
        let mut limit = self.limit.borrow_mut();
        if limit.is_none() && looks.is_multiple_of(CHOICES_BETWEEN_LOOKS) {
            *limit = self.budget.exceeded(0);
        }
        limit.is_some()
    }

    /// Returns the limit that ended the choices, if one did.
    pub(crate) fn limit(&self) -> Option<Limit> {
        self.limit.borrow().clone()
    }
}

/// A run of a thread, with the values that it needs and provides. Locations are numbered, and sets of values are bits.
struct Supply<'p> {
    run: &'p ThreadRun,
    needs: Vec<(usize, u64)>,
    writes: Vec<(usize, u64)>,
    /// Destination and source.
    copies: Vec<(usize, usize)>,
}

/// The runs of all threads, grouped by the registers at their end.
pub(crate) struct Justified<'p> {
    watch: &'p Watch<'p>,
    threads: Vec<Vec<Vec<Supply<'p>>>>,
    /// By location, the initial value.
    initial: Vec<u64>,
}

impl<'p> Justified<'p> {
    /// Prepares the runs of a client. The choices end when the budget of `watch` is used up, which then knows the limit.
    pub(crate) fn new(client: &Client, plain: &'p Plain, watch: &'p Watch<'p>) -> Justified<'p> {
        let mut names = Names::default();
        let mut threads = Vec::new();
        for runs in &plain.runs {
            let mut by: BTreeMap<&[Value], Vec<Supply<'p>>> = BTreeMap::new();
            for run in runs {
                by.entry(&run.registers).or_default().push(names.supply(run));
            }
            threads.push(by.into_values().collect::<Vec<_>>());
        }
        let locs: Vec<Loc> = names.locs.keys().copied().collect();
        let mut start = vec![0; locs.len()];
        for loc in locs {
            start[names.locs[&loc]] = names.value(&initial(client, loc));
        }
        let mut out = Justified {
            watch,
            threads,
            initial: start,
        };
        if names.values.len() > VALUES_MAX {
            let supplies = out.threads.iter_mut().flatten().flatten();
            supplies.for_each(|supply| supply.needs.clear());
        }
        out
    }

    /// Calls `visit` with every way in which the threads may end: the registers of each thread, and a function that calls
    /// its argument with every choice of runs that end so and justify each other.
    pub(crate) fn each_ending(&self, visit: &mut dyn FnMut(&Ending<'_, 'p>) -> Flow) -> Flow {
        product(&self.threads, &mut Vec::new(), &mut |groups| {
            if self.watch.is_over() {
                return Flow::Stop;
            }
            visit(&Ending {
                watch: self.watch,
                groups,
                initial: &self.initial,
            })
        })
    }

    /// Calls `visit` with every choice of one run for each thread in which the runs justify each other.
    pub(crate) fn each(&self, visit: &mut dyn FnMut(&[&'p ThreadRun]) -> Flow) -> Flow {
        self.each_ending(&mut |ending| ending.each(visit))
    }
}

/// The runs that end with the same registers, for each thread.
pub(crate) struct Ending<'a, 'p> {
    watch: &'a Watch<'a>,
    groups: &'a [&'a Vec<Supply<'p>>],
    initial: &'a [u64],
}

impl<'p> Ending<'_, 'p> {
    /// Returns the registers of each thread at its end.
    pub(crate) fn registers(&self) -> Vec<Vec<Value>> {
        let registers = self.groups.iter().map(|runs| runs[0].run.registers.clone());
        registers.collect()
    }

    /// Calls `visit` with every choice of runs that end so and justify each other.
    pub(crate) fn each(&self, visit: &mut dyn FnMut(&[&'p ThreadRun]) -> Flow) -> Flow {
        let mut found = self.initial.to_vec();
        product(self.groups, &mut Vec::new(), &mut |chosen| {
            if self.watch.is_over() {
                return Flow::Stop;
            }
            if !justify(chosen, self.initial, &mut found) {
                return Flow::Continue;
            }
            let runs: SmallVec<[&'p ThreadRun; 4]> = chosen.iter().map(|supply| supply.run).collect();
            visit(&runs)
        })
    }
}

/// Returns whether every value that these runs need is provided. `found` is space for the values at each location.
fn justify(chosen: &[&Supply<'_>], initial: &[u64], found: &mut [u64]) -> bool {
    found.copy_from_slice(initial);
    for supply in chosen {
        supply.writes.iter().for_each(|&(at, values)| found[at] |= values);
    }
    let lacking = |found: &[u64]| {
        let mut needs = chosen.iter().flat_map(|supply| &supply.needs);
        needs.any(|&(at, values)| values & !found[at] != 0)
    };
    while lacking(found) {
        let mut grown = false;
        for &(to, from) in chosen.iter().flat_map(|supply| &supply.copies) {
            let more = found[from] & !found[to];
            found[to] |= more;
            grown |= more != 0;
        }
        if !grown {
            return false;
        }
    }
    true
}

/// Numbers for locations and values.
#[derive(Default)]
struct Names {
    locs: BTreeMap<Loc, usize>,
    values: BTreeMap<Value, usize>,
}

impl Names {
    fn loc(&mut self, loc: Loc) -> usize {
        let next = self.locs.len();
        *self.locs.entry(loc).or_insert(next)
    }

    /// Returns the bit of a value. Where there are too many values, bits are shared, and nothing is needed.
    fn value(&mut self, value: &Value) -> u64 {
        let next = self.values.len();
        1 << (*self.values.entry(value.clone()).or_insert(next) % VALUES_MAX)
    }

    fn supply<'p>(&mut self, run: &'p ThreadRun) -> Supply<'p> {
        let mut out = Supply {
            run,
            needs: Vec::new(),
            writes: Vec::new(),
            copies: Vec::new(),
        };
        for (loc, value) in &run.needs {
            out.needs.push((self.loc(*loc), self.value(value)));
        }
        for effect in &run.effects {
            match effect {
                Effect::Write(loc, value) | Effect::Place(loc, value) => {
                    out.writes.push((self.loc(*loc), self.value(value)));
                }
                Effect::Copy { to, from } => out.copies.push((self.loc(*to), self.loc(*from))),
            }
        }
        out
    }
}

/// Calls `visit` with every choice of one item of each list.
pub(crate) fn product<'l, L: AsRef<[T]>, T>(
    lists: &'l [L],
    chosen: &mut Vec<&'l T>,
    visit: &mut dyn FnMut(&[&'l T]) -> Flow,
) -> Flow {
    let Some(list) = lists.get(chosen.len()) else {
        return visit(chosen);
    };
    for item in list.as_ref() {
        chosen.push(item);
        let flow = product(lists, chosen, visit);
        chosen.pop();
        if flow == Flow::Stop {
            return flow;
        }
    }
    Flow::Continue
}
