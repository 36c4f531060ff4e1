//! Texts that the reader of herd7's x86 tests refuses, because each would be a different test if it were read in another way.

use mowgli::explore;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::Budget;
use mowgli::star::x86;

/// A register's address is what it holds at that point.
#[test]
fn an_overwritten_address_is_followed_or_refused() {
    let test = |rows: &str| {
        format!("X86_64 t\n{{ 0:rsi=x; 0:rdi=y; 0:rax=7; }}\n P0 ;\n{rows}\nexists ([x]=1 /\\ [y]=0)\n")
    };
    let allowed = |text: &str| {
        let litmus = x86::parse(text).unwrap();
        let found = explore::outcomes(&litmus.program, Model::Tso, RmwAtomicity::Hca, &Budget::default());
        found
            .outcomes
            .iter()
            .any(|o| litmus.queries[0].condition.formula.holds(o))
    };
    assert!(allowed(&test(" movl $1,(%rsi) ;")));
    assert!(!allowed(&test(" movq %rdi,%rsi ;\n movl $1,(%rsi) ;")));
    for (rows, message) in [
        (" movq %rax,%rsi ;\n movl $1,(%rsi) ;", "holds no address here"),
        (" movq (%rsi),%rsi ;\n movl $1,(%rsi) ;", "holds no address here"),
        (" movq $0,%rsi ;\n movl $1,(%rsi) ;", "holds no address here"),
        (" movl %edi,%esi ;\n movl $1,(%rsi) ;", "cuts an address"),
        (" movl $1,(%esi) ;", "half of an address"),
        (" movq %rdi,(%rsi) ;", "stores an address"),
        (" movl %rax,(%rsi) ;", "different sizes"),
        (" movq $1,(rsi) ;", "a register's name"),
    ] {
        let error = x86::parse(&test(rows)).expect_err(rows);
        let first = &error.diagnostics[0];
        assert!(first.message.contains(message), "{rows}: {first}");
        assert!(first.help.is_some() && !first.span.is_empty(), "{rows}: {first}");
    }
}

/// A text that would be a different test if it were read in another way is refused.
#[test]
fn what_has_two_readings_is_refused() {
    let text = "X86 t\n{ x=0; }\n P0 ;\n MOV [x],$1 ;\nexists (x=1)\n";
    x86::parse(text).unwrap();
    for (from, to, message) in [
        ("{ x=0; }", "{ x=0; x=1; }", "two values"),
        ("{ x=0; }", "{ 0:EAX=0; 0:RAX=x; }", "two values"),
        ("{ x=0; }", "{ EAX=1; }", "register of no thread"),
        ("exists (x=1)", "exists (EAX=1)", "register of no thread"),
        ("MOV [x],$1", "MOV EAX,%EBX", "no operand"),
        ("MOV [x],$1", "MOV [%ESI],$1", "no operand"),
        ("MOV [x],$1", "MOV AH,$1", "second byte"),
        (
            "MOV [x],$1",
            "MOV AL,$200",
            "not the same number in 8 and in 32 bits",
        ),
        ("MOV [x],$1", "MOV EIP,$1", "no instruction names"),
        ("MOV [x],$1", "MOV [x+4],$1", "no operand"),
        ("MOV [x],$1", "MOV [x],$0x1ffffffff", "does not fit"),
        ("exists (x=1)", "exists (0:RAX=-1)", "32 and in 64 bits"),
        ("exists (x=1)", "filter (x=1)", "a final condition"),
        ("exists (x=1)", "exists (x=1) => (x=2)", "expected"),
    ] {
        let wrong = text.replacen(from, to, 1);
        let error = x86::parse(&wrong).expect_err(&wrong);
        let first = &error.diagnostics[0];
        assert!(first.message.contains(message), "{wrong}: {first}");
    }
}

/// Instructions whose effect the language cannot say, and those that would be right only in another form.
#[test]
fn instructions_without_a_meaning_are_refused() {
    let test = |rows: &str| format!("X86_64 t\n{{ x=0; 0:rsi=x; }}\n P0 ;\n{rows}\nexists (x=1)\n");
    x86::parse(&test(" movl $1,(x) ;")).unwrap();
    for (rows, message) in [
        (" cmpxchg %ebx,(x) ;", "only a locked cmpxchg"),
        (" lock movl $1,(x) ;", "`lock` goes with"),
        (" lock addl $1,%eax ;", "`lock` goes with"),
        (" xchgq %rsi,(x) ;", "stores an address"),
        (" xchgl %esi,%eax ;", "cuts an address"),
        (" addq $8,%rsi ;", "holds an address"),
        (" addl %eax,(x) ;", "a sum of two numbers"),
        (
            " movl $2147483647,(x) ;\n addl $1,(x) ;",
            "may not fit in 32 bits",
        ),
        (" movq $5,%rax ;\n decl %eax ;", "the test subtracts"),
        (" xorl %eax,%ebx ;", "bits of two different operands"),
        (" je L ;\n L: ;", "nothing that this jump could ask"),
        (
            " addl $1,%eax ;\n jl L ;\n L: ;",
            "nothing that this jump could ask",
        ),
        (" jmp M ;\n L: ;", "has no label `M`"),
        (" L: movl $1,(x) ;\n L: ;", "two labels `L`"),
        (" L: movl (x),%eax ;\n cmpl $1,%eax ;\n jne L ;", "makes a loop"),
        (" movl 8(%rsi),%eax ;", "no operand"),
        (
            " movl $1,(x) ;\n movntil %eax,(x) ;",
            "none of those that can be read",
        ),
    ] {
        let error = x86::parse(&test(rows)).expect_err(rows);
        let first = &error.diagnostics[0];
        assert!(first.message.contains(message), "{rows}: {first}");
        assert!(first.help.is_some() && !first.span.is_empty(), "{rows}: {first}");
    }
}
