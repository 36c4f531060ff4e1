//! Finds what the iterations of a loop hand on: registers, and operations that have not taken effect.
//!
//! The engines decide a loop whatever its bound if its iterations come to an end, or return to a state in which the loop has been. Which
//! registers one iteration hands to the next is read off the loop's text here, as in an analysis of live variables. Used by the
//! unfolding of the declarative engine and by both engines to say why a loop is not decided.

use std::collections::BTreeSet;

use crate::outcome::Growth;
use crate::program::{Expr, Instr, Reg};

/// The use that a block makes of registers.
#[derive(Clone, Debug, Default)]
struct Flow {
    /// Registers that some way through the block reads before it assigns them.
    reads: BTreeSet<Reg>,
    /// Registers that every way through the block assigns.
    always: BTreeSet<Reg>,
    /// Registers that some way through the block assigns.
    sometimes: BTreeSet<Reg>,
}

impl Flow {
    /// Reads a register, unless the block has assigned it.
    fn read(&mut self, expr: &Expr) {
        match expr {
            Expr::Const(_) => {}
            Expr::Reg(reg) => {
                if !self.always.contains(reg) {
                    self.reads.insert(*reg);
                }
            }
            Expr::Unary(_, a) => self.read(a),
            Expr::Binary(_, a, b) => {
                self.read(a);
                self.read(b);
            }
        }
    }

    fn assign(&mut self, reg: Reg) {
        self.always.insert(reg);
        self.sometimes.insert(reg);
    }

    /// Goes on with one of the blocks.
    fn branch<'c>(&mut self, blocks: impl IntoIterator<Item = &'c [Instr]>) {
        let mut always: Option<BTreeSet<Reg>> = None;
        for block in blocks {
            let flow = Flow::of(block);
            self.reads.extend(flow.reads.difference(&self.always));
            self.sometimes.extend(flow.sometimes);
            always = Some(match always {
                None => flow.always,
                Some(known) => known.intersection(&flow.always).copied().collect(),
            });
        }
        self.always.extend(always.unwrap_or_default());
    }

    fn of(block: &[Instr]) -> Flow {
        let mut flow = Flow::default();
        for instr in block {
            flow.step(instr);
        }
        flow
    }

    fn step(&mut self, instr: &Instr) {
        match instr.request().0 {
            Instr::Store { value, .. } => self.read(value),
            Instr::Load { reg, .. } => self.assign(*reg),
            Instr::Assign { reg, value } => {
                self.read(value);
                self.assign(*reg);
            }
            Instr::Cas {
                reg, expected, new, ..
            } => {
                self.read(expected);
                self.read(new);
                reg.iter().for_each(|&reg| self.assign(reg));
            }
            Instr::Swap { reg, new, .. } => {
                self.read(new);
                reg.iter().for_each(|&reg| self.assign(reg));
            }
            Instr::PollRecv { reg, .. } => reg.iter().for_each(|&reg| self.assign(reg)),
            Instr::Message(message) => {
                message.put.iter().for_each(|put| self.step(put));
                self.read(&message.immediate);
            }
            Instr::Put { src, .. } => src.constant().into_iter().for_each(|value| self.read(value)),
            Instr::RemoteFaa { add: operand, .. } | Instr::RemoteSwap { new: operand, .. } => {
                self.read(operand)
            }
            Instr::RemoteCas { expected, new, .. } => {
                self.read(expected);
                self.read(new);
            }
            Instr::Assume(cond) => self.read(cond),
            Instr::If {
                cond,
                then,
                otherwise,
            } => {
                self.read(cond);
                self.branch([then.as_slice(), otherwise.as_slice()]);
            }
            Instr::While { cond, body, .. } => {
                self.read(cond);
                // The body may not run at all.
                self.branch([body.as_slice(), &[]]);
            }
            Instr::Choose(blocks) => self.branch(blocks.iter().map(Vec::as_slice)),
            Instr::Get { .. } | Instr::Mfence | Instr::Poll { .. } | Instr::Recv { .. } => {}
            Instr::Rfence { .. } | Instr::Wait { .. } | Instr::Strong(_) | Instr::Unsignaled(_) => {}
        }
    }
}

/// Returns the registers that one iteration may hand to the next: those that it assigns and that a later iteration, or what follows the
/// loop, may read before they are assigned again. Every register is read at the end of a program, where it is part of the outcome.
pub(crate) fn carried(body: &[Instr]) -> Vec<Reg> {
    let flow = Flow::of(body);
    let handed = |reg: &Reg| flow.reads.contains(reg) || !flow.always.contains(reg);
    flow.sometimes.iter().copied().filter(handed).collect()
}

/// Returns why a loop of this body may need more iterations than any bound, as far as its text tells.
pub(crate) fn growth(body: &[Instr]) -> Growth {
    match (leaves_writes(body), carried(body).is_empty()) {
        (true, _) => Growth::Operations,
        (false, false) => Growth::Registers,
        (false, true) => Growth::States,
    }
}

/// Returns whether a block has stores or operations that write to the memory of others.
fn leaves_writes(block: &[Instr]) -> bool {
    block.iter().any(|instr| match instr.request().0 {
        Instr::Store { .. }
        | Instr::Swap { .. }
        | Instr::Put { .. }
        | Instr::RemoteFaa { .. }
        | Instr::RemoteSwap { .. }
        | Instr::Message(_)
        | Instr::Recv { .. } => true,
        other => other.blocks().into_iter().any(leaves_writes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carries(body: &str) -> Vec<String> {
        let text = format!(
            "RDMA t\n{{ x@1=0; y@2=0; a@1=0; 0:p; 0:q; 0:r; }}\nP0@1 ;\nwhile (r == 0) bound 2 {{ {body} }} ;\nexists (true)"
        );
        let thread = crate::litmus::parse(&text)
            .unwrap()
            .litmus
            .program
            .threads
            .remove(0);
        let [Instr::While { body, .. }] = &thread.code[..] else {
            panic!("{text}");
        };
        let name = |reg: Reg| thread.registers[usize::from(reg.0)].clone();
        carried(body).into_iter().map(name).collect()
    }

    #[test]
    fn a_register_is_handed_on_if_it_is_read_or_left_alone_somewhere() {
        let cases: [(&str, &[&str]); 10] = [
            ("r := x", &[]),
            ("a := y^2; poll(2); r := a", &[]),
            ("r := r + 1", &["r"]),
            ("p := q; q := x; r := p", &["q"]),
            ("p := x; if (p == 1) { r := 1 }", &["r"]),
            ("p := x; if (p == 1) { r := 1 } else { r := 0 }", &[]),
            ("choose { r := 1 } or { r := x }", &[]),
            ("while (p == 0) bound 2 { p := x }; r := p", &["p"]),
            ("p := 0; while (p == 0) bound 2 { p := x }; r := p", &[]),
            ("p := x; r := cas(x, p, p + 1)", &[]),
        ];
        for (body, handed) in cases {
            assert_eq!(carries(body), handed, "{body}");
        }
    }
}
