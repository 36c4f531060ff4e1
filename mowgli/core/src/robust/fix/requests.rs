//! Mending on a network that orders less: the fewest requests for strong order.
//!
//! Theorem 5 is about the papers' network. So a program is first mended there ([`super::mend`]), and then the fewest operations are
//! found that have to ask for strong order ([`Instr::Strong`]) for the exact search to call the program robust on the tier.

use super::{Costs, Mended, Unmended, mend};
use crate::model::Tier;
use crate::outcome::Budget;
use crate::program::{Instr, Program};
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
/// Says why the program cannot be mended: [`Unmended::Tier`] if it is not robust although every operation asks.
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
        operations(&t.code, &mut Vec::new(), &mut |place| {
            places.push((thread, place))
        });
    }
    let with = |chosen: &[usize]| {
        let mut program = base.program.clone();
        for &at in chosen {
            let (thread, place) = &places[at];
            if let Some(instr) = find(&mut program.threads[*thread].code, place) {
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

/// Calls `visit` with the place of every operation that could ask and does not.
fn operations(code: &[Instr], place: &mut Vec<u16>, visit: &mut dyn FnMut(Vec<u16>)) {
    for (at, instr) in code.iter().enumerate() {
        place.push(at as u16);
        let mut block = |number: u16, inner: &[Instr]| {
            place.push(number);
            operations(inner, place, visit);
            place.pop();
        };
        match instr {
            Instr::If { then, otherwise, .. } => {
                block(0, then);
                block(1, otherwise);
            }
            Instr::While { body, .. } => block(0, body),
            Instr::Choose(blocks) => blocks.iter().enumerate().for_each(|(i, b)| block(i as u16, b)),
            Instr::Put { .. } | Instr::Get { .. } | Instr::RemoteFaa { .. } | Instr::RemoteCas { .. } => {
                visit(place.clone());
            }
            _ => {}
        }
        place.pop();
    }
}

/// Returns the instruction at a place.
fn find<'c>(code: &'c mut [Instr], place: &[u16]) -> Option<&'c mut Instr> {
    let (&at, rest) = place.split_first()?;
    let instr = code.get_mut(usize::from(at))?;
    let Some((&number, rest)) = rest.split_first() else {
        return Some(instr);
    };
    match instr {
        Instr::If { then, .. } if number == 0 => find(then, rest),
        Instr::If { otherwise, .. } => find(otherwise, rest),
        Instr::While { body, .. } => find(body, rest),
        Instr::Choose(blocks) => find(blocks.get_mut(usize::from(number))?, rest),
        _ => None,
    }
}
