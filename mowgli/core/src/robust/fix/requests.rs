//! Mending on a network that orders less: the fewest requests for strong order.
//!
//! Theorem 5 is about the papers' network. So a program is first mended there ([`super::mend`]), and then the fewest operations are
//! found that have to ask for strong order ([`Instr::Strong`]) for the exact search to call the program robust on the tier.

use super::edit::each_place;
use super::{Costs, Mended, Unmended, mend};
use crate::model::Tier;
use crate::outcome::Budget;
use crate::program::{Instr, Program, at_mut};
use crate::robust::{Exact, Question, exact};

/// A program mended for a tier.
#[derive(Clone, Debug)]
pub struct Requested {
    /// The program mended for the papers' network.
    pub base: Mended,
    /// The program with the requests too.
    pub program: Program,
    /// The instructions that ask for strong order now and did not before: the thread, and the place in its code.
    pub requests: Vec<(usize, Vec<u16>)>,
}

/// Mends a program for the tier of the question's model. The requests are the fewest that do, given what was added for the papers'
/// network.
///
/// # Errors
/// Returns why the program cannot be mended: [`Unmended::Tier`] if it is not robust although every operation asks.
pub fn mend_on_tier(
    program: &Program,
    question: &Question,
    costs: &Costs,
    budget: &Budget<'_>,
) -> Result<Requested, Unmended> {
    let Some(model) = question.model.on(Tier::Ibta) else {
        return Err(Unmended::Model(question.model));
    };
    let over_ibta = Question { model, ..*question };
    let base = mend(program, &over_ibta, costs, budget)?;
    let mut places = Vec::new();
    for (thread, t) in base.program.threads.iter().enumerate() {
        each_place(&t.code, &[], &mut |instr, place| {
            if instr.can_be_strong() {
                places.push((thread, place.to_vec()));
            }
        });
    }
    let with = |chosen: &[usize]| {
        let mut program = base.program.clone();
        for &at in chosen {
            let (thread, place) = &places[at];
            if let Some(instr) = at_mut(&mut program.threads[*thread].code, place) {
                *instr = Instr::Strong(Box::new(instr.clone()));
            }
        }
        program
    };
    let robust = |program: &Program| match exact(program, question.model, question.rmw, budget) {
        Exact::Robust => Ok(true),
        Exact::NotRobust(_) => Ok(false),
        Exact::Unknown(limit) => Err(Unmended::Limit(limit)),
    };
    let all: Vec<usize> = (0..places.len()).collect();
    if !robust(&with(&all))? {
        return Err(Unmended::Tier(question.model));
    }
    for count in 0..=all.len() {
        let mut chosen: Vec<usize> = (0..count).collect();
        loop {
            let program = with(&chosen);
            if robust(&program)? {
                let requests = chosen.iter().map(|&at| places[at].clone()).collect();
                return Ok(Requested {
                    base,
                    program,
                    requests,
                });
            }
            if !next(&mut chosen, all.len()) {
                break;
            }
        }
    }
    unreachable!("the program in which every operation asks is robust")
}

/// Moves on to the next choice of as many numbers below `n`. Returns false after the last.
fn next(chosen: &mut [usize], n: usize) -> bool {
    let count = chosen.len();
    let Some(i) = (0..count).rev().find(|&i| chosen[i] < n - (count - i)) else {
        return false;
    };
    chosen[i] += 1;
    for j in i + 1..count {
        chosen[j] = chosen[j - 1] + 1;
    }
    true
}
