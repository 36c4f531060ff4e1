//! The grammar of model files: from tokens to the syntax tree.
//!
//! Operators bind as in herd7, from loosest to tightest: `|`, `;`, `\`, `&`, `*` (product), `~`, postfix. A `*` is a product if an
//! operand can start after it, else the closure.

mod herd;

use super::ast::{Binary, Binding, Check, Expr, ExprKind, File, Item, Test, Unary};
use super::limits::{NAME_BYTES_MAX, NESTING_MAX, SOURCE_BYTES_MAX};
use crate::syntax::{Diagnostic, Kind, Language, Limits, Parser, Step, Token, nearest};
use herd::{coherence, local, matching, procedure, variant};

pub(super) use herd::foreign;

/// Words that are no names.
pub(super) const KEYWORDS: [&str; 20] = [
    "let",
    "rec",
    "and",
    "as",
    "include",
    "show",
    "requires",
    "acyclic",
    "irreflexive",
    "empty",
    "in",
    "try",
    "with",
    "from",
    "if",
    "then",
    "else",
    "end",
    "flag",
    "call",
];

/// Words with which statements start.
const STARTS: [&str; 7] = [
    "let",
    "include",
    "show",
    "requires",
    "acyclic",
    "irreflexive",
    "empty",
];

/// Keywords of herd7's language without a meaning here.
const FOREIGN: [&str; 12] = [
    "unshow",
    "procedure",
    "match",
    "forall",
    "do",
    "fun",
    "enum",
    "instructions",
    "default",
    "debug",
    "begin",
    "undefined_unless",
];

/// The lexical rules of model files. Comments from `#` or `//` to the end of the line come from other tools' models.
static MODELS: Language = Language {
    symbols: &[
        "^-1", "^+", "^*", "^?", "++", "->", "||", "&&", "|", "&", ";", "\\", "+", "*", "?", "~", "(", ")",
        "[", "]", "{", "}", ",", "=", "0", "_",
    ],
    keywords: &[&KEYWORDS, &FOREIGN],
    // A lone underscore is the set of all events.
    starts_name: |rest| {
        rest.starts_with(|c: char| c.is_ascii_alphabetic())
            || rest
                .strip_prefix('_')
                .is_some_and(|more| more.starts_with(is_name_char))
    },
    is_name_char,
    numbers: false,
    long_quotes: false,
    line_comments: &["#", "//"],
    remedy,
    limits: Limits {
        source_bytes: SOURCE_BYTES_MAX,
        name_bytes: NAME_BYTES_MAX,
        nesting: NESTING_MAX,
    },
};

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.'".contains(c)
}

fn remedy(c: char) -> Option<&'static str> {
    Some(match c {
        '∪' => "union is written `|`",
        '∩' => "intersection is written `&`",
        '×' => "the product of two sets is written `*`",
        '¬' => "complement is written `~`",
        '^' => "inverse is written `^-1`, closures `^+`, `^*` and `^?`",
        '/' | '%' => "comments are written `(* ... *)`",
        '-' => "difference is written `\\`",
        _ => return None,
    })
}

/// Parses a file. Stops at the first error.
pub(super) fn parse(text: &str) -> Step<File> {
    Parser::read(&MODELS, text, file)
}

fn file(p: &mut Parser) -> Step<File> {
    let mut file = File::default();
    // herd7 allows names, a quoted text, or both.
    if let Token::Name(name) = p.peek()
        && !p.is_keyword(name)
    {
        // A slip in the first keyword is more likely than a title that looks like it.
        if let (Some(near), false) = (nearest(name, STARTS), next_is_item(p, 1)) {
            let near = near.to_owned();
            return Err(p
                .unexpected("a statement")
                .help(format!("did you mean `{near}`?")));
        }
        let mut title = name.clone();
        p.skip();
        while let Token::Name(name) = p.peek()
            && !p.is_keyword(name)
        {
            title.push(' ');
            title.push_str(name);
            p.skip();
        }
        file.title = Some(title);
    }
    if let Token::Text(text) = p.peek() {
        file.title = Some(text.clone());
        p.skip();
    }
    while *p.peek() != Token::End {
        item(p, &mut file.items)?;
    }
    Ok(file)
}

/// Returns whether a statement or a title starts after so many tokens, or the file ends there.
fn next_is_item(p: &Parser, ahead: usize) -> bool {
    match p.peek_at(ahead) {
        Token::Name(name) => p.is_keyword(name),
        Token::Text(_) | Token::End => true,
        Token::Symbol(_) | Token::Number(_) => false,
    }
}

fn item(p: &mut Parser, items: &mut Vec<Item>) -> Step<()> {
    if starts_negated_test(p, 0) {
        let check = check(p)?;
        items.push(Item::Check(check));
        return Ok(());
    }
    let Token::Name(word) = p.peek().clone() else {
        return Err(p.unexpected("a statement").help(STATEMENTS));
    };
    match word.as_str() {
        "let" => {
            p.skip();
            let recursive = p.eat_word("rec");
            let mut bindings = vec![binding(p)?];
            while p.eat_word("and") {
                bindings.push(binding(p)?);
            }
            if p.is_word("in") {
                return Err(unsupported(p, "in"));
            }
            items.push(Item::Let { recursive, bindings });
        }
        "include" => {
            p.skip();
            let span = p.span();
            let Token::Text(path) = p.peek().clone() else {
                return Err(p
                    .unexpected("a quoted file name")
                    .help("as in `include \"rdma-tso.cat\"`"));
            };
            p.skip();
            items.push(Item::Include { path, span });
        }
        "show" => {
            p.skip();
            loop {
                let expr = expr(p)?;
                let name = match (&expr.kind, p.eat_word("as")) {
                    (_, true) => p.new_name("a name")?.text,
                    (ExprKind::Name(name), false) => name.clone(),
                    _ => return Err(p.unexpected("`as` and a name")),
                };
                items.push(Item::Show { expr, name });
                if !p.eat(",") {
                    break;
                }
            }
        }
        "requires" | "acyclic" | "irreflexive" | "empty" => {
            let check = check(p)?;
            items.push(Item::Check(check));
        }
        "flag" => {
            let span = p.span();
            p.skip();
            check(p)?;
            items.push(Item::Flag { span });
        }
        "with" => {
            p.skip();
            let item = coherence(p)?;
            items.push(item);
        }
        "if" => {
            p.skip();
            // herd7 sets a name by `-variant`. Here none is set.
            let holds = variant(p)?;
            let mut then = Vec::new();
            let mut otherwise = Vec::new();
            while !p.is_word("else") && !p.is_word("end") {
                item(p, &mut then)?;
            }
            if p.eat_word("else") {
                while !p.is_word("end") {
                    item(p, &mut otherwise)?;
                }
            }
            p.skip();
            items.extend(if holds { then } else { otherwise });
        }
        "procedure" => procedure(p)?,
        "call" => {
            let span = p.span();
            p.skip();
            expr(p)?;
            items.push(Item::Call { span });
        }
        word if FOREIGN.contains(&word) => return Err(unsupported(p, word)),
        word => {
            let found = p.unexpected("a statement");
            return Err(match nearest(word, STARTS) {
                Some(near) => found.help(format!("did you mean `{near}`?")),
                None => found.help(STATEMENTS),
            });
        }
    }
    Ok(())
}

fn check(p: &mut Parser) -> Step<Check> {
    let start = p.span().start;
    let requires = p.eat_word("requires");
    let negated = p.eat("~");
    let test = [Test::Acyclic, Test::Irreflexive, Test::Empty]
        .into_iter()
        .find(|t| p.is_word(t.keyword()));
    let Some(test) = test else {
        return Err(p.unexpected("`acyclic`, `irreflexive` or `empty`"));
    };
    p.skip();
    let expr = expr(p)?;
    let span = start..expr.span.end;
    let name = match p.eat_word("as") {
        true => Some(p.new_name("the axiom's name")?.text),
        false => None,
    };
    Ok(Check {
        requires,
        negated,
        test,
        expr,
        name,
        span,
    })
}

fn binding(p: &mut Parser) -> Step<Binding> {
    let name = p.new_name("a name to define")?;
    let params = if p.eat("(") {
        let mut params = Vec::new();
        while !p.eat(")") {
            if !params.is_empty() {
                p.expect(",", "parameters are separated by `,`")?;
            }
            params.push(p.new_name("a parameter")?);
        }
        Some(params)
    } else if matches!(p.peek(), Token::Name(_)) {
        Some(vec![p.new_name("a parameter")?])
    } else {
        None
    };
    p.expect("=", "a definition is `let name = expression`")?;
    let body = expr(p)?;
    Ok(Binding {
        name: name.text,
        span: name.span,
        params,
        body,
    })
}

fn expr(p: &mut Parser) -> Step<Expr> {
    p.enter()?;
    let start = p.span();
    let kind = match p.peek().clone() {
        Token::Name(word) if word == "try" => {
            p.skip();
            let first = expr(p)?;
            expect_word(p, "with")?;
            Some(ExprKind::Try(Box::new(first), Box::new(expr(p)?)))
        }
        Token::Name(word) if word == "if" => {
            p.skip();
            let holds = variant(p)?;
            expect_word(p, "then")?;
            let then = expr(p)?;
            expect_word(p, "else")?;
            let otherwise = expr(p)?;
            Some(if holds { then.kind } else { otherwise.kind })
        }
        Token::Name(word) if word == "let" => Some(local(p)?),
        Token::Name(word) if word == "match" => Some(matching(p)?),
        Token::Name(word) if word == "fun" => {
            while !p.eat("->") {
                match p.peek() {
                    Token::Name(_) | Token::Symbol("(" | ")" | ",") => p.skip(),
                    _ => return Err(p.unexpected("parameters and `->`")),
                }
            }
            expr(p)?;
            Some(ExprKind::Foreign("fun"))
        }
        _ => None,
    };
    let expr = match kind {
        Some(kind) => Expr {
            kind,
            span: p.span_from(&start),
        },
        None => {
            let first = chained(p, 0)?;
            // The operator that adds a set to a set of sets.
            match p.eat("++") {
                true => {
                    expr(p)?;
                    Expr {
                        kind: ExprKind::Foreign("++"),
                        span: p.span_from(&start),
                    }
                }
                false => first,
            }
        }
    };
    p.leave();
    Ok(expr)
}

fn expect_word(p: &mut Parser, word: &str) -> Step<()> {
    match p.eat_word(word) {
        true => Ok(()),
        false => Err(p.unexpected(&format!("`{word}`"))),
    }
}

/// Parses operands of the operators from this level of [`Binary::LEVELS`] on.
fn chained(p: &mut Parser, level: usize) -> Step<Expr> {
    let Some(&op) = Binary::LEVELS.get(level) else {
        return product(p);
    };
    let mut operands = vec![chained(p, level + 1)?];
    while p.eat(op.symbol()) {
        operands.push(chained(p, level + 1)?);
    }
    Ok(chain(op, operands))
}

fn product(p: &mut Parser) -> Step<Expr> {
    let mut operands = vec![prefix(p)?];
    while *p.peek() == Token::Symbol("*") {
        p.skip();
        operands.push(prefix(p)?);
    }
    Ok(chain(Binary::Product, operands))
}

fn prefix(p: &mut Parser) -> Step<Expr> {
    let start = p.span().start;
    if !p.eat("~") {
        return postfix(p);
    }
    p.enter()?;
    let inner = prefix(p)?;
    p.leave();
    Ok(Expr {
        span: start..inner.span.end,
        kind: ExprKind::Unary(Unary::Complement, Box::new(inner)),
    })
}

fn postfix(p: &mut Parser) -> Step<Expr> {
    let mut expr = primary(p)?;
    let mut count = 0;
    loop {
        let op = match p.peek() {
            Token::Symbol("+" | "^+") => Unary::Plus,
            Token::Symbol("?" | "^?") => Unary::Optional,
            Token::Symbol("^-1") => Unary::Inverse,
            Token::Symbol("^*") => Unary::Star,
            Token::Symbol("*") if !starts_operand(p, 1) => Unary::Star,
            _ => return Ok(expr),
        };
        count += 1;
        if count > NESTING_MAX {
            let message = format!("more than NESTING_MAX ({NESTING_MAX}) postfix operators");
            return Err(Diagnostic::new(Kind::LimitExceeded, p.span(), message));
        }
        let end = p.span().end;
        p.skip();
        expr = Expr {
            span: expr.span.start..end,
            kind: ExprKind::Unary(op, Box::new(expr)),
        };
    }
}

fn primary(p: &mut Parser) -> Step<Expr> {
    let span = p.span();
    let simple = |kind| Expr {
        kind,
        span: span.clone(),
    };
    match p.peek().clone() {
        Token::Name(name) if !p.is_keyword(&name) => {
            p.skip();
            if !starts_simple(p) {
                return Ok(simple(ExprKind::Name(name)));
            }
            let args = arguments(p)?;
            Ok(Expr {
                span: span.start..p.span_from(&span).end,
                kind: ExprKind::Call {
                    name,
                    name_span: span,
                    args,
                },
            })
        }
        Token::Name(name) if FOREIGN.contains(&name.as_str()) => Err(unsupported(p, &name)),
        Token::Symbol("0") => {
            p.skip();
            Ok(simple(ExprKind::Zero))
        }
        Token::Symbol("_") => {
            p.skip();
            Ok(simple(ExprKind::Everything))
        }
        Token::Symbol("{") => {
            p.skip();
            p.expect("}", "the empty set is `{}`")?;
            Ok(Expr {
                kind: ExprKind::Nothing,
                span: span.start..p.span_from(&span).end,
            })
        }
        Token::Symbol(open @ ("(" | "[")) => {
            p.skip();
            let inner = expr(p)?;
            match open {
                "(" => p.expect(")", "close the parenthesis")?,
                _ => p.expect("]", "`[S]` is the identity on the set S")?,
            }
            let span = span.start..p.span_from(&span).end;
            Ok(match open {
                "(" => Expr {
                    span,
                    kind: inner.kind,
                },
                _ => Expr {
                    span,
                    kind: ExprKind::Identity(Box::new(inner)),
                },
            })
        }
        _ => Err(p.unexpected("a set or a relation")),
    }
}

/// Parses `(a, b)` or one simple operand.
fn arguments(p: &mut Parser) -> Step<Vec<Expr>> {
    if !p.eat("(") {
        let span = p.span();
        if let Token::Name(name) = p.peek().clone() {
            p.skip();
            return Ok(vec![Expr {
                kind: ExprKind::Name(name),
                span,
            }]);
        }
        return Ok(vec![primary(p)?]);
    }
    let mut args = Vec::new();
    while !p.eat(")") {
        if !args.is_empty() {
            p.expect(",", "arguments are separated by `,`")?;
        }
        args.push(expr(p)?);
    }
    Ok(args)
}

/// Returns whether an operand without prefix starts here.
fn starts_simple(p: &Parser) -> bool {
    match p.peek() {
        Token::Name(name) => !p.is_keyword(name),
        Token::Symbol(s) => matches!(*s, "(" | "[" | "{" | "_" | "0"),
        _ => false,
    }
}

/// Returns whether an operand starts after so many tokens.
fn starts_operand(p: &Parser, ahead: usize) -> bool {
    match p.peek_at(ahead) {
        Token::Name(name) => !p.is_keyword(name),
        Token::Symbol("~") => !starts_negated_test(p, ahead),
        Token::Symbol(s) => matches!(*s, "(" | "[" | "{" | "_" | "0"),
        _ => false,
    }
}

/// Returns whether an axiom such as `~empty r` starts after so many tokens.
fn starts_negated_test(p: &Parser, ahead: usize) -> bool {
    let is_test = |word: &str| {
        [Test::Acyclic, Test::Irreflexive, Test::Empty]
            .iter()
            .any(|t| t.keyword() == word)
    };
    *p.peek_at(ahead) == Token::Symbol("~")
        && matches!(p.peek_at(ahead + 1), Token::Name(word) if is_test(word))
}

fn unsupported(p: &Parser, word: &str) -> Diagnostic {
    foreign(p.span(), word)
}

const STATEMENTS: &str =
    "statements are `let`, `acyclic`, `irreflexive`, `empty`, `requires`, `include` and `show`";

/// Groups operands; one operand stays itself.
fn chain(op: Binary, mut operands: Vec<Expr>) -> Expr {
    match (operands.len(), operands.pop()) {
        (1, Some(only)) => only,
        (_, Some(last)) => {
            operands.push(last);
            let span = operands[0].span.start..operands[operands.len() - 1].span.end;
            Expr {
                kind: ExprKind::Chain(op, operands),
                span,
            }
        }
        (_, None) => unreachable!("a level has an operand"),
    }
}
