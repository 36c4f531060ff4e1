//! Random clients of words, and what they have of store buffers.

use mowgli::generate::Random;
use mowgli_libraries::client::{
    Arg, BinaryOp, Call, Client, Expr, Library, Method, Node, Object, ObjectId, ObjectKind, Reg, Stmt,
    Thread, WorkId,
};
use mowgli_libraries::enumerate::{Bounds, RandomClients};
use mowgli_libraries::value::Value;

/// The methods of the papers.
const PAPERS: &[Method] = &[
    Method::Write,
    Method::Read,
    Method::Cas,
    Method::Mfence,
    Method::Get,
    Method::Put,
    Method::Wait,
    Method::Rfence,
];
/// The methods of CPUs, without the fence, which takes the interest out of short programs.
const CPU: &[Method] = &[Method::Write, Method::Read, Method::Cas];
/// The methods of CPUs beside those of cards.
const MIXED: &[Method] = &[
    Method::Write,
    Method::Read,
    Method::Cas,
    Method::Put,
    Method::Get,
    Method::Wait,
];
/// Remote read-modify-writes. More than their share are drawn, as methods are drawn by their arguments.
const ATOMICS: &[Method] = &[
    Method::RemoteFaa,
    Method::RemoteCas,
    Method::Read,
    Method::Write,
    Method::Cas,
    Method::Put,
    Method::Get,
    Method::Wait,
];

/// Draws the client of a seed. `branches` allows branches on what was read.
pub fn client(seed: u64, branches: bool) -> Client {
    let mut random = Random::new(seed);
    let mut client = match random.below(4) {
        0 => buffering(&mut random),
        _ => uniform(&mut random),
    };
    // Half of the clients write different values. In the others values meet.
    if random.once_in(2) {
        client
            .threads
            .iter_mut()
            .for_each(|thread| mix(&mut thread.body, &mut random));
    }
    if branches && random.once_in(4) {
        client
            .threads
            .iter_mut()
            .for_each(|thread| branch(&mut thread.body, &mut random));
    }
    client.observed_words = (0..client.objects.len()).map(|o| ObjectId(o as u16)).collect();
    client
}

/// Draws calls with the same probability.
fn uniform(random: &mut Random) -> Client {
    let pick = |random: &mut Random, from: usize, to: usize| from + random.below(to - from + 1);
    let words = |methods: &[Method], calls| Bounds {
        methods: methods.to_vec(),
        ..Bounds::of(&[Library::RdmaWait], calls)
    };
    let bounds = match random.below(8) {
        0 | 1 => Bounds {
            objects_max: pick(random, 1, 2),
            ..words(PAPERS, pick(random, 3, 6))
        },
        2..=4 => Bounds {
            objects_max: 2,
            nodes_max: 1,
            ..words(CPU, pick(random, 5, 7))
        },
        5 => Bounds {
            objects_max: 2,
            nodes_max: 1,
            threads_max: 3,
            ..words(CPU, pick(random, 5, 6))
        },
        6 => Bounds {
            objects_max: pick(random, 1, 2),
            ..words(MIXED, pick(random, 4, 6))
        },
        _ => Bounds {
            objects_max: pick(random, 1, 2),
            ..words(ATOMICS, pick(random, 2, 4))
        },
    };
    RandomClients::new(&bounds).draw(&mut |n| random.below(n))
}

/// Draws store buffering and what is near: each thread writes a word, reads it, and reads another, with calls put in or left
/// out. Some threads are on another node, and reach the words by puts and gets.
fn buffering(random: &mut Random) -> Client {
    let words = 2 + random.below(2);
    let threads = 2 + random.below(2);
    let far = random.once_in(4);
    let mut objects: Vec<Object> = (1..=words).map(|n| word(format!("x{n}"), 0)).collect();
    objects.push(word("y1".to_owned(), 1));
    let far_word = Arg::Object(ObjectId(words as u16));
    let near = |n: usize| Arg::Object(ObjectId(n as u16));
    let value = |random: &mut Random| Arg::Value(Expr::Const(Value::Int(1 + random.below(2) as i64)));
    let threads = (0..threads).map(|t| {
        let node = u8::from(far && t == 1);
        let mut thread = Thread {
            node: Node(node),
            registers: Vec::new(),
            work_ids: if node == 1 {
                vec!["d".to_owned()]
            } else {
                Vec::new()
            },
            body: Vec::new(),
        };
        let (own, other) = (near(t % words), near((t + 1) % words));
        let mut calls = match node {
            0 => vec![
                (Method::Write, vec![own.clone(), value(random)]),
                (Method::Read, vec![own]),
                (Method::Read, vec![other]),
            ],
            _ => vec![
                (Method::Write, vec![far_word.clone(), value(random)]),
                (Method::Put, vec![own, far_word.clone(), Arg::Work(WorkId(0))]),
                (Method::Get, vec![far_word.clone(), other, Arg::Work(WorkId(0))]),
                (Method::Wait, vec![Arg::Work(WorkId(0))]),
                (Method::Read, vec![far_word.clone()]),
            ],
        };
        if random.once_in(3) {
            calls.remove(random.below(calls.len()));
        }
        if random.once_in(2) {
            let own = if node == 0 {
                near(random.below(words))
            } else {
                far_word.clone()
            };
            let more = match random.below(3) {
                0 => (Method::Write, vec![own, value(random)]),
                1 => (Method::Read, vec![own]),
                _ => (
                    Method::Cas,
                    vec![own, Arg::Value(Expr::Const(Value::Int(0))), value(random)],
                ),
            };
            calls.insert(random.below(calls.len() + 1), more);
        }
        for (method, args) in calls {
            push(&mut thread, method, args);
        }
        thread
    });
    Client {
        name: "buffering".to_owned(),
        description: None,
        nodes: 2,
        threads: threads.collect(),
        objects,
        observed_words: Vec::new(),
        queries: Vec::new(),
    }
}

fn word(name: String, node: u8) -> Object {
    Object {
        name,
        kind: ObjectKind::Word {
            node: Node(node),
            init: 0,
        },
    }
}

/// Gives values that were written before, or that the thread has read.
fn mix(body: &mut [Stmt], random: &mut Random) {
    let mut read: Vec<Reg> = Vec::new();
    for stmt in body {
        let Stmt::Call { result, call } = stmt else {
            continue;
        };
        for arg in &mut call.args {
            if let Arg::Value(value) = arg {
                *value = match random.below(4) {
                    0 if !read.is_empty() => Expr::Reg(read[random.below(read.len())]),
                    _ => Expr::Const(Value::Int(random.below(3) as i64)),
                };
            }
        }
        read.extend(*result);
    }
}

/// Draws a client that shows the order of remote operations: a thread posts several to one node, and a thread there, or another of its
/// own node, looks at what they touch. A third of the operations ask for strong order.
pub fn posting(seed: u64) -> Client {
    let mut random = Random::new(seed);
    let mut objects = vec![word("x1".to_owned(), 0), word("x2".to_owned(), 0)];
    objects.extend((1..=2).map(|n| word(format!("y{n}"), 1)));
    let thread = |node| Thread {
        node: Node(node),
        registers: Vec::new(),
        work_ids: vec!["d".to_owned(), "e".to_owned()],
        body: Vec::new(),
    };
    let number = |n: i64| Arg::Value(Expr::Const(Value::Int(n)));
    let pick = |random: &mut Random, own: usize| Arg::Object(ObjectId((own + random.below(2)) as u16));
    let mut written = 0;
    let mut poster = thread(0);
    for _ in 0..3 + random.below(3) {
        let work = Arg::Work(WorkId(random.below(2) as u16));
        let (own, far) = (pick(&mut random, 0), pick(&mut random, 2));
        written += 1;
        let (method, args) = match random.below(16) {
            0..=4 => (Method::Put, vec![far, own, work]),
            5..=7 => (Method::Get, vec![own, far, work]),
            8 => (Method::RemoteFaa, vec![own, far, number(10), work]),
            9 => (
                Method::RemoteCas,
                vec![own, far, number(0), number(written), work],
            ),
            10 => (Method::Rfence, vec![Arg::Node(Node(1))]),
            11 => (Method::Wait, vec![work]),
            12..=13 => (Method::Write, vec![own, number(written)]),
            _ => (Method::Read, vec![own]),
        };
        let method = method.asking().filter(|_| random.once_in(3)).unwrap_or(method);
        push(&mut poster, method, args);
    }
    let mut threads = vec![poster];
    let mut looking = |node: u8, random: &mut Random| {
        let mut looking = thread(node);
        for _ in 0..1 + random.below(2) {
            let at = pick(random, usize::from(node) * 2);
            written += 1;
            match random.below(4) {
                0 => push(&mut looking, Method::Write, vec![at, number(written)]),
                _ => push(&mut looking, Method::Read, vec![at]),
            }
        }
        looking
    };
    threads.push(looking(1, &mut random));
    if random.once_in(3) {
        threads.push(looking(0, &mut random));
    }
    Client {
        name: "posting".to_owned(),
        description: None,
        nodes: 2,
        observed_words: (0..objects.len()).map(|o| ObjectId(o as u16)).collect(),
        threads,
        objects,
        queries: Vec::new(),
    }
}

/// Appends a call, with a register for its result.
fn push(thread: &mut Thread, method: Method, args: Vec<Arg>) {
    let result = method.signature().returns.then(|| {
        thread.registers.push(format!("r{}", thread.registers.len()));
        Reg(thread.registers.len() as u16 - 1)
    });
    let call = Call { method, args };
    thread.body.push(Stmt::Call { result, call });
}

/// Lets a third of the calls that can ask for strong order do so.
pub fn ask(client: &mut Client, seed: u64) {
    fn in_body(body: &mut [Stmt], random: &mut Random) {
        for stmt in body {
            match stmt {
                Stmt::Call { call, .. } => {
                    let asking = call.method.asking().filter(|_| random.once_in(3));
                    call.method = asking.unwrap_or(call.method);
                }
                Stmt::If { then, otherwise, .. } => {
                    in_body(then, random);
                    in_body(otherwise, random);
                }
                _ => {}
            }
        }
    }
    let mut random = Random::new(seed);
    for thread in &mut client.threads {
        in_body(&mut thread.body, &mut random);
    }
}

/// Makes what follows a result depend on it.
fn branch(body: &mut Vec<Stmt>, random: &mut Random) {
    let result = |stmt: &Stmt| match stmt {
        Stmt::Call { result, .. } => *result,
        _ => None,
    };
    let results: Vec<(usize, Reg)> = (0..)
        .zip(body.iter())
        .filter_map(|(at, s)| Some((at, result(s)?)))
        .collect();
    if results.is_empty() {
        return;
    }
    let (at, reg) = results[random.below(results.len())];
    let then = body.split_off(at + 1);
    if then.is_empty() {
        return;
    }
    let value = Box::new(Expr::Const(Value::Int(random.below(3) as i64)));
    let op = [BinaryOp::Eq, BinaryOp::Ne][random.below(2)];
    body.push(Stmt::If {
        cond: Expr::Binary(op, Box::new(Expr::Reg(reg)), value),
        then,
        otherwise: Vec::new(),
    });
}

/// Puts a fence before every read that may take its value from the thread's store buffer: one of a word that the thread has
/// written since its last fence. Returns `None` if there is no such read.
pub fn fenced(client: &Client) -> Option<Client> {
    let mut out = client.clone();
    let mut found = false;
    for thread in &mut out.threads {
        thread.body = fence_reads(std::mem::take(&mut thread.body), &mut Vec::new(), &mut found);
    }
    found.then_some(out)
}

fn fence_reads(body: Vec<Stmt>, buffered: &mut Vec<Arg>, found: &mut bool) -> Vec<Stmt> {
    let mut out = Vec::new();
    for mut stmt in body {
        match &mut stmt {
            Stmt::Call { call, .. } => match call.method {
                Method::Write => buffered.push(call.args[0].clone()),
                Method::Cas | Method::Mfence => buffered.clear(),
                Method::Read if buffered.contains(&call.args[0]) => {
                    *found = true;
                    buffered.clear();
                    out.push(Stmt::Call {
                        result: None,
                        call: Call {
                            method: Method::Mfence,
                            args: Vec::new(),
                        },
                    });
                }
                _ => {}
            },
            // A branch without an alternative is the end of its thread.
            Stmt::If { then, .. } => *then = fence_reads(std::mem::take(then), buffered, found),
            _ => {}
        }
        out.push(stmt);
    }
    out
}

/// Returns the client with polls in place of its waits: after any call of a thread, towards a node for which a completion is left, and now
/// and then where none is.
pub fn polling(client: &Client, seed: u64) -> Client {
    let mut random = Random::new(seed);
    let mut polling = client.clone();
    for thread in &mut polling.threads {
        let mut left = vec![0u32; usize::from(client.nodes)];
        let mut body = Vec::new();
        for stmt in thread.body.drain(..) {
            let Stmt::Call { call, .. } = &stmt else {
                panic!("only calls here");
            };
            let far = match call.method.plain() {
                Method::Put => call.args.first(),
                Method::Get | Method::RemoteFaa | Method::RemoteCas => call.args.get(1),
                _ => None,
            };
            if let Some(Arg::Object(object)) = far
                && let ObjectKind::Word { node, .. } = client.object(*object).kind
            {
                left[usize::from(node.0)] += 1;
            }
            if call.method != Method::Wait {
                body.push(stmt);
            }
            for (node, left) in (0..).map(Node).zip(&mut left) {
                if *left > 0 && random.once_in(2) || random.once_in(100) {
                    *left = left.saturating_sub(1);
                    let call = Call {
                        method: Method::Poll,
                        args: vec![Arg::Node(node)],
                    };
                    body.push(Stmt::Call { result: None, call });
                }
            }
        }
        thread.body = body;
    }
    polling
}
