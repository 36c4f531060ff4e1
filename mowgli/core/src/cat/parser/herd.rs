//! The grammar of what model files have for the sake of herd7's own files: `if` on variants, `with .. from`, procedures, and values that
//! are neither sets of events nor relations.
//!
//! herd7's library computes coherence orders with sets of sets and recursive functions. Its text is read, so that a model may include it;
//! a model that uses one of these values is refused.

use super::super::ast::{Expr, ExprKind, Item};
use super::{binding, expect_word, expr, item};
use crate::syntax::{Diagnostic, Kind, Parser, Span, Step, Token};

/// Reads `co from generate_cos(e)`.
pub(super) fn coherence(p: &mut Parser) -> Step<Item> {
    let name = p.new_name("a name for the order")?;
    if !p.eat_word("from") {
        return Err(p.unexpected("`from`"));
    }
    let source = expr(p)?;
    let ExprKind::Call { name: from, args, .. } = source.kind else {
        return Err(only_coherence(source.span));
    };
    match (from.as_str(), <[Expr; 1]>::try_from(args)) {
        ("generate_cos", Ok([pairs])) => Ok(Item::Coherence { name, pairs }),
        _ => Err(only_coherence(source.span)),
    }
}

fn only_coherence(span: Span) -> Diagnostic {
    let message = "only orders of coherence are chosen, by `generate_cos`";
    Diagnostic::new(Kind::Unsupported, span, message).help("as in `with co from generate_cos(co0)`")
}

/// Reads a condition on variants, all of which are off.
pub(super) fn variant(p: &mut Parser) -> Step<bool> {
    let mut holds = variants_of_and(p)?;
    while p.eat("||") {
        holds |= variants_of_and(p)?;
    }
    Ok(holds)
}

fn variants_of_and(p: &mut Parser) -> Step<bool> {
    let mut holds = simple_variant(p)?;
    while p.eat("&&") {
        holds &= simple_variant(p)?;
    }
    Ok(holds)
}

fn simple_variant(p: &mut Parser) -> Step<bool> {
    p.enter()?;
    let holds = if p.eat("~") || p.eat_word("not") {
        !simple_variant(p)?
    } else if p.eat("(") {
        let holds = variant(p)?;
        p.expect(")", "close the parenthesis")?;
        holds
    } else if let Token::Text(_) = p.peek() {
        p.skip();
        false
    } else {
        return Err(p.unexpected("the quoted name of a variant"));
    };
    p.leave();
    Ok(holds)
}

/// Reads a procedure. It has no meaning until something calls it, and calls are refused.
pub(super) fn procedure(p: &mut Parser) -> Step<()> {
    p.skip();
    p.new_name("the procedure's name")?;
    while !p.eat("=") {
        match p.peek() {
            Token::Name(_) | Token::Symbol("(" | ")" | ",") => p.skip(),
            _ => return Err(p.unexpected("parameters and `=`")),
        }
    }
    let mut body = Vec::new();
    p.enter()?;
    while !p.is_word("end") {
        item(p, &mut body)?;
    }
    p.leave();
    p.skip();
    Ok(())
}

/// Reads `let a = b in e`.
pub(super) fn local(p: &mut Parser) -> Step<ExprKind> {
    p.skip();
    let recursive = p.eat_word("rec");
    let mut bindings = vec![binding(p)?];
    while p.eat_word("and") {
        bindings.push(binding(p)?);
    }
    expect_word(p, "in")?;
    let body = expr(p)?;
    let plain = !recursive && bindings.iter().all(|b| b.params.is_none());
    Ok(match plain {
        true => ExprKind::Let(bindings, Box::new(body)),
        false => ExprKind::Foreign("let .. in"),
    })
}

/// Reads `match e with || {} -> a || x ++ S -> b end`.
pub(super) fn matching(p: &mut Parser) -> Step<ExprKind> {
    p.skip();
    expr(p)?;
    expect_word(p, "with")?;
    while p.eat("||") {
        while !p.eat("->") {
            match p.peek() {
                Token::Name(_) | Token::Symbol(_) => p.skip(),
                _ => return Err(p.unexpected("`->`")),
            }
        }
        expr(p)?;
    }
    expect_word(p, "end")?;
    Ok(ExprKind::Foreign("match"))
}

/// Says that a word of herd7's language has no meaning here.
pub(in super::super) fn foreign(span: Span, word: &str) -> Diagnostic {
    let message = format!("`{word}` is part of herd7's language and not of this one");
    let help = match word {
        "undefined_unless" => "`requires` limits a model to programs with a property",
        "in" | "let .. in" => "define the name in a `let` of its own",
        "call" => "state the axioms of the procedure one by one",
        "++" | "match" => "there are no sets of sets here",
        _ => "docs/models.md lists the statements",
    };
    Diagnostic::new(Kind::Unsupported, span, message).help(help)
}
