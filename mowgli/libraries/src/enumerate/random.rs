//! Clients that are drawn at random, where all would be too many.

use std::ops::ControlFlow;

use super::{Bounds, Stop, Table, tables};
use crate::client::Client;

/// Draws clients at random: first a shape, then calls of the shape, each with the same probability.
pub struct RandomClients {
    tables: Vec<Table>,
    calls_max: usize,
}

impl RandomClients {
    /// Prepares to draw clients within these bounds.
    ///
    /// # Panics
    ///
    /// Panics if no client is within the bounds: no library has a call, or none of its calls has a result though `results` asks
    /// for one.
    pub fn new(bounds: &Bounds) -> RandomClients {
        let clients = RandomClients::until(bounds, &|| false);
        clients.unwrap_or_else(|| panic!("no client is within {bounds:?}"))
    }

    /// Prepares like [`new`](RandomClients::new). Returns `None` if `stop` says so before all shapes are listed, or if no
    /// client is within the bounds.
    pub fn until(bounds: &Bounds, stop: Stop<'_>) -> Option<RandomClients> {
        let ControlFlow::Continue(mut tables) = tables(bounds, stop) else {
            return None;
        };
        tables.retain(|table| !table.results || table.has_results());
        let drawn = RandomClients {
            tables,
            calls_max: bounds.calls_max,
        };
        (!drawn.tables.is_empty()).then_some(drawn)
    }

    /// Draws a client with as many calls as the bounds allow. `random(n)` must return a number below `n`.
    pub fn draw(&self, random: &mut dyn FnMut(usize) -> usize) -> Client {
        loop {
            let table = &self.tables[random(self.tables.len())];
            let threads = table.alphabets.len();
            let each = table.calls_each_max;
            let calls = self.calls_max.min(threads.saturating_mul(each)).max(threads);
            let mut sequences: Vec<Vec<usize>> =
                table.alphabets.iter().map(|a| vec![random(a.len())]).collect();
            for _ in threads..calls {
                let room: Vec<usize> = (0..threads).filter(|&t| sequences[t].len() < each).collect();
                let t = room[random(room.len())];
                sequences[t].push(random(table.alphabets[t].len()));
            }
            if table.returns(&sequences) {
                return table.client(&sequences, 0);
            }
        }
    }
}
