//! Turns client texts into a syntax tree, by the parser of litmus tests.

use mowgli::syntax::{
    self, Column, Diagnostic, Init, Kind, Name, Number, Observed, Parser, Row, Span, Step, Token,
};

use super::method::{Library, Method};
use crate::value::{BOTTOM, Value};

/// A whole text.
pub(super) struct File {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) init: Vec<Init>,
    pub(super) objects: Vec<Declaration>,
    pub(super) nodes: Option<Number>,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row<Stmt>>,
    pub(super) observed: Vec<Observed>,
    pub(super) queries: Vec<syntax::Query<Value>>,
}

/// An entry of the `objects` block.
pub(super) struct Declaration {
    pub(super) library: Library,
    pub(super) name: Name,
    /// The node, `@1`.
    pub(super) node: Option<Number>,
    /// The initial value, `=1`.
    pub(super) init: Option<Number>,
    /// The threads, `: P0, P1`, or the writer before `->`.
    pub(super) threads: Vec<Name>,
    /// The readers, after `->`.
    pub(super) readers: Vec<Name>,
    /// The size, `size 4`.
    pub(super) size: Option<Number>,
    pub(super) span: Span,
}

/// A statement.
pub(super) struct Stmt {
    pub(super) kind: StmtKind,
    pub(super) span: Span,
}

/// The kind of a statement.
pub(super) enum StmtKind {
    Call {
        result: Option<Name>,
        method: Method,
        args: Vec<Operand>,
    },
    Assign {
        reg: Name,
        value: Operand,
    },
    If {
        cond: syntax::Expr,
        then: Vec<Stmt>,
        otherwise: Vec<Stmt>,
    },
    Loop(Vec<Stmt>),
    Break(Option<Number>),
}

/// An argument, or the right side of an assignment.
pub(super) struct Operand {
    pub(super) kind: OperandKind,
    pub(super) span: Span,
}

/// The kind of an operand.
pub(super) enum OperandKind {
    /// An expression. A lone name may also be an object or a work identifier, and a lone number a node.
    Expr(syntax::Expr),
    /// `[e1, e2]`.
    Tuple(Vec<syntax::Expr>),
    /// `{1, 2}`.
    Nodes(Vec<Number>),
}

/// Reads a whole text after its first line, which has the name.
pub(super) fn file(p: &mut Parser, name: String) -> Step<File> {
    let description = p.description();
    let init = p.init()?;
    let mut objects = Vec::new();
    let mut nodes = None;
    if p.eat_word("objects") {
        p.expect(
            "{",
            "the block declares objects: `objects { sv x; barrier b: P0, P1; }`",
        )?;
        while !p.eat("}") {
            if p.eat(";") {
                continue;
            }
            if p.eat_word("nodes") {
                nodes = Some(p.number()?);
            } else {
                objects.push(declaration(p)?);
            }
            if !p.is("}") {
                p.expect(";", "entries of the block end with `;`")?;
            }
        }
    }
    let columns = p.columns()?;
    let mut rows = Vec::new();
    while !p.at_final_part() {
        rows.push(p.row(columns.len(), stmt)?);
    }
    let observed = p.observed_list()?;
    let queries = if *p.peek() == Token::End {
        Vec::new()
    } else {
        p.queries(value)?
    };
    Ok(File {
        name,
        description,
        init,
        objects,
        nodes,
        columns,
        rows,
        observed,
        queries,
    })
}

fn declaration(p: &mut Parser) -> Step<Declaration> {
    let start = p.span();
    let word = p.name("the kind of an object, as in `sv x`")?;
    let keywords = Library::ALL.into_iter().filter_map(Library::keyword);
    let Some(library) = Library::ALL
        .into_iter()
        .find(|l| l.keyword() == Some(word.text.as_str()))
    else {
        let message = format!("unknown kind of object `{}`", word.text);
        let diagnostic = Diagnostic::new(Kind::UnknownInstruction, word.span, message);
        return Err(match syntax::nearest(&word.text, keywords.clone()) {
            Some(known) => diagnostic.help(format!("did you mean `{known}`?")),
            None => diagnostic.help(format!(
                "kinds are {}; words of RDMA^WAIT are placed in the init block, `{{ x@1=0; }}`",
                keywords.collect::<Vec<_>>().join(", ")
            )),
        });
    };
    let name = p.new_name("the object's name")?;
    let mut out = Declaration {
        library,
        name,
        node: None,
        init: None,
        threads: Vec::new(),
        readers: Vec::new(),
        size: None,
        span: start.clone(),
    };
    if p.eat("@") {
        out.node = Some(p.number()?);
    }
    if p.eat("=") {
        out.init = Some(p.signed()?);
    }
    if p.eat(":") {
        out.threads = threads(p)?;
    }
    if p.is("-") {
        p.expect("-", "")?;
        p.expect(
            ">",
            "the writer and the readers of a ring: `ring q: P0 -> P1, P2 size 4`",
        )?;
        out.readers = threads(p)?;
    }
    if p.eat_word("size") {
        out.size = Some(p.number()?);
    }
    out.span = p.span_from(&start);
    Ok(out)
}

fn threads(p: &mut Parser) -> Step<Vec<Name>> {
    let mut out = vec![p.name("a thread, as in `P0`")?];
    while p.eat(",") {
        out.push(p.name("a thread, as in `P0`")?);
    }
    Ok(out)
}

fn stmt(p: &mut Parser) -> Step<Stmt> {
    let start = p.span();
    p.count_instruction()?;
    let Token::Name(word) = p.peek().clone() else {
        return Err(p.unexpected("a call or an assignment"));
    };
    let kind = match (word.as_str(), p.peek_at(1)) {
        ("if", _) => {
            let cond = p.call(Parser::expr)?;
            let then = p.block(stmt)?;
            let otherwise = if p.eat_word("else") {
                p.block(stmt)?
            } else {
                Vec::new()
            };
            StmtKind::If {
                cond,
                then,
                otherwise,
            }
        }
        ("loop", Token::Symbol("{")) => {
            p.eat_word("loop");
            StmtKind::Loop(p.block(stmt)?)
        }
        ("break", after) => {
            let levels = matches!(after, Token::Number(_));
            p.eat_word("break");
            StmtKind::Break(if levels { Some(p.number()?) } else { None })
        }
        ("strong", Token::Name(_)) | (_, Token::Symbol("(")) => {
            let (method, args) = call(p)?;
            StmtKind::Call {
                result: None,
                method,
                args,
            }
        }
        (_, Token::Symbol(":=")) => {
            let reg = p.new_name("a register")?;
            p.expect(":=", "")?;
            match (p.peek(), p.peek_at(1)) {
                (Token::Name(_), Token::Symbol("(")) => {
                    let (method, args) = call(p)?;
                    StmtKind::Call {
                        result: Some(reg),
                        method,
                        args,
                    }
                }
                _ => StmtKind::Assign {
                    reg,
                    value: operand(p)?,
                },
            }
        }
        _ => return Err(unknown_method(&word, start)),
    };
    Ok(Stmt {
        kind,
        span: p.span_from(&start),
    })
}

fn call(p: &mut Parser) -> Step<(Method, Vec<Operand>)> {
    let span = p.span();
    let strong = matches!((p.peek(), p.peek_at(1)), (Token::Name(word), Token::Name(_)) if word == "strong");
    if strong {
        p.eat_word("strong");
    }
    let name = p.name("a method")?;
    let Some(mut method) = Method::by_name(&name.text) else {
        return Err(unknown_method(&name.text, name.span));
    };
    if strong {
        method = method.asking().ok_or_else(|| {
            let message = format!("`{}` cannot ask for strong order", name.text);
            let able = Method::ALL.iter().filter(|m| m.is_strong());
            let able: Vec<&str> = able.map(|m| m.plain().name()).collect();
            let help = format!("leave `strong` out; it stands before {}", able.join(", "));
            Diagnostic::new(Kind::WrongOperand, p.span_from(&span), message).help(help)
        })?;
    }
    p.expect("(", "arguments stand in parentheses")?;
    let mut args = Vec::new();
    while !p.eat(")") {
        args.push(operand(p)?);
        if !p.is(")") {
            p.expect(",", "arguments are separated by `,`")?;
        }
    }
    let wanted = method.signature().params.len();
    if args.len() != wanted {
        let message = format!(
            "`{}` takes {wanted} argument{}, not {}",
            name.text,
            if wanted == 1 { "" } else { "s" },
            args.len()
        );
        return Err(
            Diagnostic::new(Kind::Syntax, p.span_from(&span), message).help(method.signature().about.trim())
        );
    }
    Ok((method, args))
}

fn operand(p: &mut Parser) -> Step<Operand> {
    let start = p.span();
    let kind = if p.eat("[") {
        let mut parts = vec![p.expr()?];
        while p.eat(",") {
            parts.push(p.expr()?);
        }
        p.expect("]", "a message of several words is `[1, 2]`")?;
        OperandKind::Tuple(parts)
    } else if p.eat("{") {
        let mut nodes = Vec::new();
        while !p.eat("}") {
            nodes.push(p.number()?);
            if !p.is("}") {
                p.expect(",", "a set of nodes is `{1, 2}`")?;
            }
        }
        OperandKind::Nodes(nodes)
    } else {
        if let (Token::Name(_), Token::Symbol("(")) = (p.peek(), p.peek_at(1)) {
            let message = "a call cannot stand inside another";
            return Err(Diagnostic::new(Kind::Syntax, p.span(), message)
                .help("assign its result to a register in the row before"));
        }
        OperandKind::Expr(p.expr()?)
    };
    Ok(Operand {
        kind,
        span: p.span_from(&start),
    })
}

/// Reads the right side of an atom in a condition.
fn value(p: &mut Parser) -> Step<Value> {
    if p.eat_word("true") {
        return Ok(Value::Bool(true));
    }
    if p.eat_word("false") {
        return Ok(Value::Bool(false));
    }
    if p.eat_word("bot") {
        return Ok(BOTTOM);
    }
    if p.eat("[") {
        let mut words = vec![p.signed_value()?];
        while p.eat(",") {
            words.push(p.signed_value()?);
        }
        p.expect("]", "a message of several words is `[1, 2]`")?;
        return Ok(Value::message(&words));
    }
    match p.peek() {
        Token::Number(_) | Token::Symbol("-") => p.signed_value().map(Value::Int),
        _ => Err(p.unexpected("a value (`1`, `true`, `false`, `bot` or `[1, 2]`)")),
    }
}

fn unknown_method(word: &str, span: Span) -> Diagnostic {
    let diagnostic = Diagnostic::new(Kind::UnknownInstruction, span, format!("unknown method `{word}`"));
    let names = Method::ALL
        .iter()
        .map(|m| m.name())
        .chain(["if", "loop", "break"]);
    match syntax::nearest(word, names) {
        Some(known) => diagnostic.help(format!("did you mean `{known}`?")),
        None => diagnostic.help("docs/clients.md lists the methods of each library"),
    }
}
