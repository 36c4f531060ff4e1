//! Interprets one thread of a litmus program as object code: CPU accesses, posted operations and waits for completions.
//!
//! The interpreter knows the language and nothing of the run. A [`Stand`] says where the words lie, which queue pair an
//! operation takes and how completions are counted. Used by the workers of jobs on real fabrics, and by the
//! tests of the model fabric, whose threads are coroutines.

use loco_fabric::{Fabric, Local, Memory, Posted, QueuePair, Result, Target, WordCell, Work};
use mowgli::program::{Expr, Instr, Loc, Node, PutSrc, Value, WorkId};

/// The handle on a word of a fabric.
pub type Cell<F> = <<F as Fabric>::Memory as Memory>::Cell<u64>;

/// Gives a thread of a program its words, queue pairs and completions.
pub trait Stand {
    /// The fabric.
    type Fabric: Fabric;
    /// The reason for which a run ends at a wait or a post.
    type Error;

    /// Is called before each instruction.
    fn pause(&mut self) {}

    /// Returns the most iterations that a loop of this body may make; `bound` is what the test states.
    fn iterations(&self, body: &[Instr], bound: u32) -> u32 {
        let _ = body;
        bound
    }

    /// Returns the word of a location of this thread's node.
    fn cell(&self, location: Loc) -> &Cell<Self::Fabric>;

    /// Orders the CPU's accesses before this call before those after it.
    fn cpu_fence(&mut self);

    /// Posts an operation, signaled, on the queue pair towards the node of its remote location.
    ///
    /// # Errors
    /// Fails if the operation cannot be posted.
    fn post(&mut self, request: Request) -> std::result::Result<(), Self::Error>;

    /// Makes the next operation towards a node wait for the results of earlier ones.
    ///
    /// # Errors
    /// Fails if there is no queue pair towards the node.
    fn fence(&mut self, node: Node) -> std::result::Result<(), Self::Error>;

    /// Waits for the next completion of an operation towards a node that has one, and so for the operations before it.
    ///
    /// # Errors
    /// Fails if it does not come.
    fn poll(&mut self, node: Node) -> std::result::Result<(), Self::Error>;

    /// Waits for the completions of all operations of this name.
    ///
    /// # Errors
    /// Fails if they do not come.
    fn wait(&mut self, work: WorkId) -> std::result::Result<(), Self::Error>;
}

/// A remote operation that a thread asks its network card for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The remote location.
    pub far: Loc,
    /// The name by which the thread waits for the operation.
    pub work: Option<WorkId>,
    /// Set if the thread asks for strong order. A fabric that places every put after the earlier ones of its queue pair
    /// need not be asked.
    pub strong: bool,
    /// Whether the operation has a completion of its own, which a poll takes.
    pub signaled: bool,
    /// The operation.
    pub operation: Operation,
}

/// A remote operation with the values of its expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Puts the word of a location.
    Put(Loc),
    /// Puts a constant. Whoever posts it decides whether its data goes inline.
    PutValue(u64),
    /// Puts a constant whose data goes inline.
    PutInline(u64),
    /// Gets into a location.
    Get(Loc),
    /// Adds. The former value goes into a location.
    FetchAdd(u64, Loc),
    /// Stores the second value if the first is found. The former value goes into a location.
    CompareSwap(u64, u64, Loc),
}

impl Operation {
    /// Posts the operation. `local` returns the place of a location of this node, `constant` the word from which a
    /// constant is put; without one its data goes inline.
    ///
    /// # Errors
    /// Returns the errors of the queue pair.
    #[inline]
    pub fn post<'m, Q: QueuePair>(
        self,
        queue_pair: &mut Q,
        target: Target<'_, Q::Remote>,
        local: impl Fn(Loc) -> Local<'m, Q::Memory>,
        constant: Option<Local<'m, Q::Memory>>,
        work: Work,
    ) -> Result<Posted> {
        match (self, constant) {
            (Operation::Put(from), _) => queue_pair.put(local(from), target, work),
            (Operation::PutValue(_), Some(word)) => queue_pair.put(word, target, work),
            (Operation::PutValue(value) | Operation::PutInline(value), _) => {
                queue_pair.put_inline(&value.to_le_bytes(), target, work)
            }
            (Operation::Get(to), _) => queue_pair.get(local(to), target, work),
            (Operation::FetchAdd(add, to), _) => queue_pair.fetch_add(target, add, local(to), work),
            (Operation::CompareSwap(expected, new, to), _) => {
                queue_pair.compare_swap(target, expected, new, local(to), work)
            }
        }
    }
}

/// The reason for which a thread has not executed its code to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop<E> {
    /// An `assume` failed.
    Discarded,
    /// A loop would need more iterations than it may make.
    LoopBound,
    /// A post or a wait failed.
    Failed(E),
}

impl<E> From<E> for Stop<E> {
    fn from(error: E) -> Stop<E> {
        Stop::Failed(error)
    }
}

/// Executes the code of a thread on `stand`. `registers` has a value for each of the thread's registers.
///
/// # Errors
/// Returns why the thread stopped before its end.
///
/// # Panics
/// Panics at `choose`, since threads on a fabric make no choices of their own, and at messages and remote exchanges, which no
/// fabric has.
#[inline]
pub fn run<S: Stand>(
    stand: &mut S,
    code: &[Instr],
    registers: &mut [Value],
) -> std::result::Result<(), Stop<S::Error>> {
    code.iter().try_for_each(|instr| step(stand, instr, registers))
}

#[inline]
fn step<S: Stand>(
    stand: &mut S,
    instr: &Instr,
    registers: &mut [Value],
) -> std::result::Result<(), Stop<S::Error>> {
    stand.pause();
    match instr {
        Instr::Store { loc, value } => {
            stand.cell(*loc).store(evaluate(value, registers) as u64);
        }
        Instr::Load { reg, loc } => {
            registers[usize::from(reg.0)] = stand.cell(*loc).load() as Value;
        }
        Instr::Assign { reg, value } => registers[usize::from(reg.0)] = evaluate(value, registers),
        Instr::Cas {
            reg,
            loc,
            expected,
            new,
        } => {
            let (expected, new) = (evaluate(expected, registers), evaluate(new, registers));
            let old = match stand.cell(*loc).compare_exchange(expected as u64, new as u64) {
                Ok(old) | Err(old) => old as Value,
            };
            if let Some(reg) = reg {
                registers[usize::from(reg.0)] = old;
            }
        }
        Instr::Swap { reg, loc, new } => {
            let new = evaluate(new, registers) as u64;
            let cell = stand.cell(*loc);
            let mut expected = cell.load();
            let old = loop {
                match cell.compare_exchange(expected, new) {
                    Ok(old) => break old as Value,
                    Err(found) => expected = found,
                }
            };
            if let Some(reg) = reg {
                registers[usize::from(reg.0)] = old;
            }
        }
        Instr::Mfence => stand.cpu_fence(),
        Instr::Put { .. }
        | Instr::Get { .. }
        | Instr::RemoteFaa { .. }
        | Instr::RemoteCas { .. }
        | Instr::Strong(_)
        | Instr::Unsignaled(_) => {
            if let Some(request) = request(instr, registers) {
                stand.post(request)?;
            }
        }
        Instr::Poll { node } => stand.poll(*node)?,
        Instr::Rfence { node } => stand.fence(*node)?,
        Instr::Wait { work } => stand.wait(*work)?,
        Instr::Assume(cond) if evaluate(cond, registers) != 0 => {}
        Instr::Assume(_) => return Err(Stop::Discarded),
        Instr::If {
            cond,
            then,
            otherwise,
        } => {
            let block = if evaluate(cond, registers) != 0 {
                then
            } else {
                otherwise
            };
            run(stand, block, registers)?;
        }
        Instr::While { cond, body, bound } => {
            for _ in 0..stand.iterations(body, *bound) {
                if evaluate(cond, registers) == 0 {
                    return Ok(());
                }
                run(stand, body, registers)?;
            }
            if evaluate(cond, registers) != 0 {
                return Err(Stop::LoopBound);
            }
        }
        Instr::Choose(_) => panic!("threads on a fabric make no choices of their own"),
        Instr::Message(_) | Instr::Recv { .. } | Instr::PollRecv { .. } | Instr::RemoteSwap { .. } => {
            panic!("fabrics have no messages and no remote exchange")
        }
    }
    Ok(())
}

/// Returns the remote location of an operation, and its work identifier.
pub fn far_side(instr: &Instr) -> Option<(Loc, Option<WorkId>)> {
    match *instr.request().0 {
        Instr::Put { dst, work, .. } => Some((dst, work)),
        Instr::Get { src, work, .. } => Some((src, work)),
        Instr::RemoteFaa { target, work, .. } | Instr::RemoteCas { target, work, .. } => Some((target, work)),
        _ => None,
    }
}

fn request(instr: &Instr, registers: &[Value]) -> Option<Request> {
    let value = |e: &Expr| evaluate(e, registers) as u64;
    let (far, work) = far_side(instr)?;
    let signaled = !instr.is_unsignaled();
    let (instr, strong) = instr.request();
    let operation = match instr {
        Instr::Put { src, .. } => match src {
            PutSrc::Loc(src) => Operation::Put(*src),
            PutSrc::Value(data) => Operation::PutValue(value(data)),
            PutSrc::Inline(data) => Operation::PutInline(value(data)),
        },
        Instr::Get { dst, .. } => Operation::Get(*dst),
        Instr::RemoteFaa { dst, add, .. } => Operation::FetchAdd(value(add), *dst),
        Instr::RemoteCas {
            dst, expected, new, ..
        } => Operation::CompareSwap(value(expected), value(new), *dst),
        _ => return None,
    };
    Some(Request {
        far,
        work,
        strong,
        signaled,
        operation,
    })
}

fn evaluate(e: &Expr, registers: &[Value]) -> Value {
    match e {
        Expr::Const(value) => *value,
        Expr::Reg(reg) => registers[usize::from(reg.0)],
        Expr::Unary(op, e) => op.apply(evaluate(e, registers)),
        Expr::Binary(op, left, right) => op.apply(evaluate(left, registers), evaluate(right, registers)),
    }
}
