//! Finds closed sets of agents, the common core of persistent sets.
//!
//! A system is cut into *agents* that make its moves. A set of agents is *closed* if it contains, with each
//! agent, every agent that this one needs. An agent needs those that may ever make a move that depends on its
//! next move; if it cannot move, it needs those that could enable it. Moves of agents outside a closed set
//! never interfere with the moves of those inside. The moves of a closed set with at least one enabled move
//! therefore suffice (Godefroid's persistent sets; stubborn sets with agents for processes).

/// A set of agents, by number.
#[derive(Debug)]
pub struct Agents<'a>(&'a mut [u64]);

impl Agents<'_> {
    /// Adds an agent, whose number must be below the number of agents. Returns true if it is new.
    #[inline]
    pub fn insert(&mut self, agent: usize) -> bool {
        let (word, bit) = (&mut self.0[agent / 64], 1 << (agent % 64));
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }

    /// Returns whether the agent is in the set.
    #[inline]
    pub fn contains(&self, agent: usize) -> bool {
        has(self.0, agent)
    }
}

fn has(set: &[u64], agent: usize) -> bool {
    set[agent / 64] >> (agent % 64) & 1 == 1
}

/// Finds the smallest closed set that contains an agent that can move. It keeps its storage from state to
/// state.
#[derive(Debug, Default)]
pub struct Closure {
    /// The number of words of a set.
    words: usize,
    /// The needs of the agents in `known`, a row for each.
    needs: Vec<u64>,
    known: Vec<u64>,
    /// The seeds whose sets have been closed, or found too large.
    tried: Vec<u64>,
    /// The number of enabled moves by agent, and the agents that have any.
    moves: Vec<u32>,
    moving: Vec<u64>,
    set: Vec<u64>,
    todo: Vec<u64>,
    best: Vec<u64>,
}

impl Closure {
    /// Finds a closed set with as few enabled moves as possible, but at least one. `movers` names the agent
    /// of each enabled move, with numbers below `agents`. `seeds` are those of them that the set may be built
    /// around: agents with a move that must happen sooner or later. `needs` adds to a set what an agent
    /// needs; it is called at most once for each agent. Afterwards, [`contains`](Closure::contains) tells which
    /// agents are in the set. If no closed set leaves any move out, the set is that of all movers. Without seeds the
    /// set is empty.
    pub fn find(
        &mut self,
        agents: usize,
        movers: &[usize],
        seeds: &[usize],
        mut needs: impl FnMut(usize, &mut Agents<'_>),
    ) {
        self.words = agents.div_ceil(64);
        for set in [&mut self.known, &mut self.tried, &mut self.best] {
            set.clear();
            set.resize(self.words, 0);
        }
        // An agent's row is cleared when its needs are asked for: most never are.
        self.needs.resize(self.words * agents, 0);
        self.moves.clear();
        self.moves.resize(agents, 0);
        self.moving.clear();
        self.moving.resize(self.words, 0);
        for &mover in movers {
            self.moves[mover] += 1;
            Agents(&mut self.moving).insert(mover);
        }
        // If no closed set has fewer moves, the result is the set of all movers. No set needs to be closed to
        // the end to find that out.
        let mut least = movers.len() as u32;
        if !seeds.is_empty() {
            self.best.copy_from_slice(&self.moving);
        }
        for &seed in seeds {
            if has(&self.tried, seed) {
                continue;
            }
            let closed = self.close(seed, least, &mut needs);
            Agents(&mut self.tried).insert(seed);
            if let Some(count) = closed {
                std::mem::swap(&mut self.best, &mut self.set);
                least = count;
                if count == 1 {
                    break;
                }
            }
        }
    }

    /// Returns whether the agent is in the set that was found.
    pub fn contains(&self, agent: usize) -> bool {
        has(&self.best, agent)
    }

    /// Closes the set of `seed`. Returns its number of enabled moves if that number is below `most`. It is not if
    /// the set has a seed that was tried before: the closed set of that seed is a part of this one, and has `most`
    /// moves or more.
    fn close(
        &mut self,
        seed: usize,
        most: u32,
        needs: &mut impl FnMut(usize, &mut Agents<'_>),
    ) -> Option<u32> {
        for set in [&mut self.set, &mut self.todo] {
            set.clear();
            set.resize(self.words, 0);
            Agents(set).insert(seed);
        }
        let mut count = self.moves[seed];
        if count >= most {
            return None;
        }
        let mut at = 0;
        while at < self.words {
            let Some(agent) = next(&mut self.todo[at], at) else {
                at += 1;
                continue;
            };
            let row = agent * self.words..(agent + 1) * self.words;
            if Agents(&mut self.known).insert(agent) {
                let row = &mut self.needs[row.clone()];
                row.fill(0);
                needs(agent, &mut Agents(row));
            }
            let sets = self.set.iter_mut().zip(&mut self.todo).zip(&self.tried);
            for ((word, &need), ((set, todo), tried)) in self.needs[row].iter().enumerate().zip(sets) {
                let fresh = need & !*set;
                if fresh == 0 {
                    continue;
                }
                if fresh & tried != 0 {
                    return None;
                }
                let mut moving = fresh & self.moving[word];
                while let Some(mover) = next(&mut moving, word) {
                    count += self.moves[mover];
                }
                if count >= most {
                    return None;
                }
                *set |= fresh;
                *todo |= fresh;
                at = at.min(word);
            }
        }
        Some(count)
    }
}

/// Takes the lowest agent out of word `at` of a set.
fn next(word: &mut u64, at: usize) -> Option<usize> {
    if *word == 0 {
        return None;
    }
    let bit = word.trailing_zeros() as usize;
    *word &= *word - 1;
    Some(at * 64 + bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(agents: usize, movers: &[usize], edges: &[(usize, usize)]) -> Vec<usize> {
        let mut closure = Closure::default();
        closure.find(agents, movers, movers, |agent, set| {
            for &(_, to) in edges.iter().filter(|(from, _)| *from == agent) {
                set.insert(to);
            }
        });
        (0..agents).filter(|&agent| closure.contains(agent)).collect()
    }

    #[test]
    fn the_smallest_closed_set_is_found() {
        // Agents 0 and 1 need one another. Agent 2 needs 3, which cannot move and needs 100, which can.
        let edges = [(0, 1), (1, 0), (2, 3), (3, 100)];
        assert_eq!(found(101, &[0, 1, 2, 100], &edges), [100]);
        assert_eq!(found(101, &[0, 1, 2], &edges), [2, 3, 100]);
        assert_eq!(found(101, &[0, 1], &edges), [0, 1]);
        assert_eq!(found(101, &[], &edges), [0; 0]);
    }

    #[test]
    fn an_agent_with_two_moves_counts_twice() {
        assert_eq!(found(3, &[0, 0, 1, 2], &[(1, 2), (2, 1)]), [0]);
        assert_eq!(found(3, &[0, 0, 0, 1, 2], &[(1, 2), (2, 1)]), [1, 2]);
    }
}
