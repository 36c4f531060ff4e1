//! Generates all cycles of four accesses: a thread makes one access to `x` and one to `y` with a separator between them, and an observer
//! accesses `y` and then `x` in an order that nothing relaxes.
//!
//! Every kind of access is tried in both places. So for every cell of an ordering table that can matter, some program here depends
//! on it.

use mowgli::program::{Expr, Instr, Loc, Location, Node, Program, PutSrc, Reg, Thread, Value};

/// An access by the thread on node 0. Local ones are to a location there, remote ones to one on node 1 or 2.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Load,
    Store,
    Cas,
    PutSource,
    GetTarget,
    AtomicResult,
    Put,
    Get,
    Atomic,
}

const ACCESSES: [Access; 9] = [
    Access::Load,
    Access::Store,
    Access::Cas,
    Access::PutSource,
    Access::GetTarget,
    Access::AtomicResult,
    Access::Put,
    Access::Get,
    Access::Atomic,
];

impl Access {
    fn uses_nic(self) -> bool {
        !matches!(self, Access::Load | Access::Store | Access::Cas)
    }

    fn is_local(self) -> bool {
        !matches!(self, Access::Put | Access::Get | Access::Atomic)
    }
}

/// The instructions between the two accesses.
#[derive(Clone, Copy)]
enum Between {
    Nothing,
    Mfence,
    Poll,
    Rfence,
    PutAndPoll,
    GetAndPoll,
    RfenceAndMfence,
    ElsewherePutAndPoll,
    RfenceElsewherePutAndPoll,
    RfenceElsewhere,
    RfenceBoth,
}

const BETWEEN: [Between; 11] = [
    Between::Nothing,
    Between::Mfence,
    Between::Poll,
    Between::Rfence,
    Between::PutAndPoll,
    Between::GetAndPoll,
    Between::RfenceAndMfence,
    Between::ElsewherePutAndPoll,
    Between::RfenceElsewherePutAndPoll,
    Between::RfenceElsewhere,
    Between::RfenceBoth,
];

/// Tests of cells that no cycle of four accesses needs.
pub const EXTRA: &[&str] = &[
    // oppo B5: a poll of an earlier put does not drain the store buffer.
    "RDMA poll-is-no-fence
{ x@1=0; y@1=0; f@2=0; }
 P0@1     | P1@1   ;
 f^2 := 1 | y := 1 ;
 x := 1   | mfence ;
 poll(2)  | s := x ;
 r := y   |        ;
exists (0:r=0 /\\ 1:s=0)",
    // ippo K7: a put that was waited for was issued after an earlier atomic.
    "RDMA wait-after-atomic
{ x@2=0; z@2=0; a@1=9; y@1=0; b@2=9; }
 P0@1                 | P1@2     ;
 a := rcas(x^2, 3, 4) | b := y^1 ;
 z^2 :=[d] 1          | poll(1)  ;
 wait(d)              | x := 5   ;
 y := 1               |          ;
exists (b=1 /\\ a=5)",
    // Without PCIe a put may read its source out of the write buffer: ippo H9, K9 and I9.
    "RDMA forwarded-get
{ x@1=0; y@2=0; z@2=0; }
 P0@1     | P1@2   ;
 x := y^2 | r := z ;
 z^2 := x | y := 1 ;
exists (1:r=1)",
    "RDMA forwarded-atomic
{ a@1=9; b@1=0; y@2=0; w@2=0; v@2=9; }
 P0@1                 | P1@1     ;
 a := rcas(y^2, 3, 4) | b := 1   ;
 w^2 := a             | y^2 := 1 ;
 v^2 := b             |          ;
exists (w=1 /\\ v=0)",
    "RDMA forwarded-second-get
{ x@1=0; g@1=0; y@2=1; v@2=5; w@2=0; u@2=9; }
 P0@1     ;
 x := y^2 ;
 g := v^2 ;
 w^2 := g ;
 u^2 := x ;
exists (w=5 /\\ u=0)",
];

/// Returns every program of the family.
pub fn programs() -> Vec<Program> {
    let mut all = Vec::new();
    for first in ACCESSES {
        for second in ACCESSES {
            // On one queue pair, and on two where both accesses use one.
            let both = first.uses_nic() && second.uses_nic();
            for far in if both { vec![1, 2] } else { vec![1] } {
                for between in BETWEEN {
                    for (reads_y, reads_x) in [(true, true), (true, false), (false, true), (false, false)] {
                        all.push(program(first, second, Node(far), between, reads_y, reads_x));
                    }
                }
            }
        }
    }
    all
}

fn program(
    first: Access,
    second: Access,
    far: Node,
    between: Between,
    reads_y: bool,
    reads_x: bool,
) -> Program {
    let x_node = if first.is_local() { Node(0) } else { Node(1) };
    let y_node = if second.is_local() { Node(0) } else { far };
    let mut build = Build {
        locations: Vec::new(),
        registers: [Vec::new(), Vec::new()],
    };
    let x = build.location("x", x_node);
    let y = build.location("y", y_node);
    let mut code = build.access(0, first, x, Node(1), 1);
    let (near, peer) = (build.location("n", Node(0)), Node(1));
    let remote = build.location("f", peer);
    let elsewhere = build.location("e", Node(2));
    code.extend(match between {
        Between::Nothing => vec![],
        Between::Mfence => vec![Instr::Mfence],
        Between::Poll => vec![Instr::Poll { node: peer }],
        Between::Rfence => vec![Instr::Rfence { node: peer }],
        Between::RfenceAndMfence => vec![Instr::Rfence { node: peer }, Instr::Mfence],
        Between::RfenceElsewhere => vec![Instr::Rfence { node: Node(2) }],
        Between::RfenceBoth => vec![Instr::Rfence { node: peer }, Instr::Rfence { node: Node(2) }],
        Between::ElsewherePutAndPoll => vec![put(elsewhere, 9), Instr::Poll { node: Node(2) }],
        Between::RfenceElsewherePutAndPoll => vec![
            Instr::Rfence { node: peer },
            put(elsewhere, 9),
            Instr::Poll { node: Node(2) },
        ],
        Between::PutAndPoll => vec![put(remote, 9), Instr::Poll { node: peer }],
        Between::GetAndPoll => vec![get(near, remote), Instr::Poll { node: peer }],
    });
    code.extend(build.access(0, second, y, far, 2));
    // The observer runs on the node of y. It reaches other nodes through its NIC, after its CPU accesses.
    let mut seen = build.observe(reads_y, y, true, 3);
    seen.push(Instr::Mfence);
    seen.extend(build.observe(reads_x, x, x_node == y_node, 4));
    let [own, other] = build.registers;
    Program {
        nodes: 3,
        locations: build.locations,
        threads: vec![
            thread("P0", Node(0), own, code),
            thread("P1", y_node, other, seen),
        ],
    }
}

struct Build {
    locations: Vec<Location>,
    registers: [Vec<String>; 2],
}

impl Build {
    fn location(&mut self, name: &str, node: Node) -> Loc {
        let index = self.locations.len();
        self.locations.push(Location {
            name: format!("{name}{index}"),
            node,
            init: 0,
            relaxed: false,
        });
        Loc(index as u16)
    }

    fn register(&mut self, thread: usize) -> Reg {
        let registers = &mut self.registers[thread];
        registers.push(format!("r{}", registers.len()));
        Reg(registers.len() as u16 - 1)
    }

    fn access(&mut self, thread: usize, access: Access, loc: Loc, peer: Node, value: Value) -> Vec<Instr> {
        let far = |b: &mut Build| b.location("f", peer);
        let near = |b: &mut Build| b.location("n", Node(0));
        vec![match access {
            Access::Load => Instr::Load {
                reg: self.register(thread),
                loc,
            },
            Access::Store => store(loc, value),
            Access::Cas => Instr::Cas {
                reg: Some(self.register(thread)),
                loc,
                expected: Expr::Const(0),
                new: Expr::Const(value),
            },
            Access::PutSource => Instr::Put {
                dst: far(self),
                src: PutSrc::Loc(loc),
                work: None,
            },
            Access::GetTarget => {
                let src = far(self);
                self.locations[usize::from(src.0)].init = value;
                get(loc, src)
            }
            Access::AtomicResult => {
                let target = far(self);
                self.locations[usize::from(target.0)].init = value;
                add(loc, target, 0)
            }
            Access::Put => put(loc, value),
            Access::Get => get(near(self), loc),
            Access::Atomic => add(near(self), loc, value),
        }]
    }

    fn observe(&mut self, reads: bool, loc: Loc, here: bool, value: Value) -> Vec<Instr> {
        let home = self.locations[1].node;
        vec![match (reads, here) {
            (true, true) => Instr::Load {
                reg: self.register(1),
                loc,
            },
            (false, true) => store(loc, value),
            (true, false) => get(self.location("o", home), loc),
            (false, false) => put(loc, value),
        }]
    }
}

fn thread(name: &str, node: Node, registers: Vec<String>, code: Vec<Instr>) -> Thread {
    Thread {
        name: name.to_owned(),
        node,
        registers,
        work_ids: Vec::new(),
        code,
    }
}

fn store(loc: Loc, value: Value) -> Instr {
    Instr::Store {
        loc,
        value: Expr::Const(value),
    }
}

fn put(dst: Loc, value: Value) -> Instr {
    Instr::Put {
        dst,
        src: PutSrc::Value(Expr::Const(value)),
        work: None,
    }
}

fn get(dst: Loc, src: Loc) -> Instr {
    Instr::Get { dst, src, work: None }
}

fn add(dst: Loc, target: Loc, value: Value) -> Instr {
    Instr::RemoteFaa {
        dst,
        target,
        add: Expr::Const(value),
        work: None,
    }
}
