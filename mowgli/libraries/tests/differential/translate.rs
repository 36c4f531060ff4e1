//! Clients of words as programs of `mowgli`: each call is an instruction.

use mowgli::program::{BinaryOp, Expr, Instr, Loc, Location, Program, PutSrc, Thread};
use mowgli_libraries::client::{self, Arg, Call, Client, Method, Node, ObjectKind, Reg, Stmt, WorkId};
use mowgli_libraries::value::Value;

/// How a wait is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// As `wait(d)` of RDMA^WAIT.
    Named,
    /// As the polls of RDMA^TSO that I_W makes (LOCO'26 Fig. 24). The client has no branches.
    Polls,
}

/// Returns the client as a program of `mowgli` whose locations are in relaxed regions or not.
pub fn program(client: &Client, waits: Waits, relaxed: bool) -> Program {
    let polling = match waits {
        Waits::Named => None,
        Waits::Polls => Some(with_polls(client)),
    };
    let client = polling.as_ref().unwrap_or(client);
    let locations = client.objects.iter().map(|object| match object.kind {
        ObjectKind::Word { node, init } => Location {
            name: object.name.clone(),
            node,
            init,
            relaxed,
        },
        _ => panic!("only words here"),
    });
    let threads = client.threads.iter().enumerate().map(|(t, thread)| Thread {
        name: format!("P{t}"),
        node: thread.node,
        registers: thread.registers.clone(),
        work_ids: match waits {
            Waits::Named => thread.work_ids.clone(),
            Waits::Polls => Vec::new(),
        },
        code: match waits {
            Waits::Named => thread.body.iter().map(instruction).collect(),
            Waits::Polls => thread.body.iter().map(instruction).map(anonymous).collect(),
        },
    });
    Program {
        nodes: client.nodes,
        locations: locations.collect(),
        threads: threads.collect(),
    }
}

/// Returns the client with polls in place of waits, as I_W makes them. Polls take completions in the order of posting, so a wait polls a
/// node until every operation of its identifier towards that node has been polled. The client has no branches.
fn with_polls(client: &Client) -> Client {
    let mut polling = client.clone();
    for thread in &mut polling.threads {
        let mut posted: Vec<Vec<WorkId>> = vec![Vec::new(); usize::from(client.nodes)];
        let mut body = Vec::new();
        for stmt in thread.body.drain(..) {
            let Stmt::Call { call, .. } = &stmt else {
                panic!("only calls here");
            };
            if call.method == Method::Wait {
                for (node, queue) in (0..).map(Node).zip(&mut posted) {
                    while queue.iter().any(|w| Some(*w) == work(call)) {
                        queue.remove(0);
                        let poll = Call {
                            method: Method::Poll,
                            args: vec![Arg::Node(node)],
                        };
                        body.push(Stmt::Call {
                            result: None,
                            call: poll,
                        });
                    }
                }
                continue;
            }
            let peer = match call.method.plain() {
                Method::Put => Some(0),
                Method::Get | Method::RemoteFaa | Method::RemoteCas => Some(1),
                _ => None,
            };
            if let (Some(at), Some(work)) = (peer, work(call)) {
                let ObjectKind::Word { node, .. } = client.object(object(call, at)).kind else {
                    panic!("only words here");
                };
                posted[usize::from(node.0)].push(work);
            }
            body.push(stmt);
        }
        thread.body = body;
    }
    polling
}

/// Returns an instruction without its work identifier, which programs with polls do not have.
fn anonymous(mut instr: Instr) -> Instr {
    if let Instr::Put { work, .. }
    | Instr::Get { work, .. }
    | Instr::RemoteFaa { work, .. }
    | Instr::RemoteCas { work, .. } = instr.request_mut()
    {
        *work = None;
    }
    instr
}

fn object(call: &Call, at: usize) -> client::ObjectId {
    match &call.args[at] {
        Arg::Object(o) => *o,
        other => panic!("{other:?} is no word"),
    }
}

fn work(call: &Call) -> Option<WorkId> {
    call.args.iter().find_map(|arg| match arg {
        Arg::Work(work) => Some(*work),
        _ => None,
    })
}

fn expression(e: &client::Expr) -> Expr {
    match e {
        client::Expr::Const(v) => Expr::Const(v.number()),
        client::Expr::Reg(reg) => Expr::Reg(*reg),
        client::Expr::Binary(op, a, b) => Expr::Binary(*op, Box::new(expression(a)), Box::new(expression(b))),
        other => panic!("{other:?} is not drawn here"),
    }
}

fn instruction(stmt: &Stmt) -> Instr {
    let (result, call) = match stmt {
        Stmt::Call { result, call } => (result, call),
        Stmt::If {
            cond,
            then,
            otherwise,
        } => {
            return Instr::If {
                cond: expression(cond),
                then: then.iter().map(instruction).collect(),
                otherwise: otherwise.iter().map(instruction).collect(),
            };
        }
        other => panic!("{other:?} is not drawn here"),
    };
    let loc = |at: usize| Loc(object(call, at).0);
    let value = |at: usize| match &call.args[at] {
        Arg::Value(e) => expression(e),
        other => panic!("{other:?} is no value"),
    };
    let work = work(call);
    let instr = match call.method.plain() {
        Method::Write => Instr::Store {
            loc: loc(0),
            value: value(1),
        },
        Method::Read => Instr::Load {
            reg: result.expect("reads have a register"),
            loc: loc(0),
        },
        Method::Cas => Instr::Cas {
            reg: *result,
            loc: loc(0),
            expected: value(1),
            new: value(2),
        },
        Method::Mfence => Instr::Mfence,
        Method::Put => Instr::Put {
            dst: loc(0),
            src: PutSrc::Loc(loc(1)),
            work,
        },
        Method::Get => Instr::Get {
            dst: loc(0),
            src: loc(1),
            work,
        },
        Method::RemoteFaa => Instr::RemoteFaa {
            dst: loc(0),
            target: loc(1),
            add: value(2),
            work,
        },
        Method::RemoteCas => Instr::RemoteCas {
            dst: loc(0),
            target: loc(1),
            expected: value(2),
            new: value(3),
            work,
        },
        Method::Wait => Instr::Wait {
            work: work.expect("waits name an identifier"),
        },
        Method::Poll => match call.args[..] {
            [Arg::Node(node)] => Instr::Poll { node },
            _ => panic!("a poll names a node"),
        },
        Method::Rfence => match call.args[0] {
            Arg::Node(node) => Instr::Rfence { node },
            ref other => panic!("{other:?} is no node"),
        },
        other => panic!("{other:?} is not of RDMA^WAIT"),
    };
    asking(instr, call.method)
}

/// Lets an instruction ask for strong order if the method does.
pub fn asking(instr: Instr, method: Method) -> Instr {
    match method.is_strong() {
        true => Instr::Strong(Box::new(instr)),
        false => instr,
    }
}

/// Returns `reg == value`.
pub fn is(reg: Reg, value: i64) -> Expr {
    Expr::Binary(
        BinaryOp::Eq,
        Box::new(Expr::Reg(reg)),
        Box::new(Expr::Const(value)),
    )
}

/// Returns values as the numbers that they count for in programs of `mowgli`.
pub fn numbers(values: &[Value]) -> Vec<i64> {
    values.iter().map(Value::number).collect()
}
