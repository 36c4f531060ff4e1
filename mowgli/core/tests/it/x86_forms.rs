//! Reads what herd7's x86 tests have besides loads and stores: headers with aliases, verdicts, notes, locked instructions, parts of
//! registers, jumps.

use std::collections::BTreeSet;

use mowgli::declarative;
use mowgli::explore;
use mowgli::litmus::{Litmus, Setting, Verdict};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Outcome};
use mowgli::star::x86;

/// Returns the outcomes under x86-TSO, in which both engines agree.
fn outcomes(litmus: &Litmus) -> BTreeSet<Outcome> {
    let machine = explore::outcomes(&litmus.program, Model::Tso, RmwAtomicity::Hca, &Budget::default());
    let axioms = declarative::outcomes(&litmus.program, Model::Tso, RmwAtomicity::Hca, &Budget::default());
    assert!(machine.is_complete() && axioms.is_complete());
    assert_eq!(machine.outcomes, axioms.outcomes);
    machine.outcomes
}

/// Returns whether some outcome satisfies the first condition.
fn allowed(text: &str) -> bool {
    let litmus = x86::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let formula = &litmus.queries[0].condition.formula;
    outcomes(&litmus).iter().any(|o| formula.holds(o))
}

const TSO: Setting = Setting {
    model: Model::Tso,
    rmw: RmwAtomicity::Hca,
};

/// The form of the x86-TSO papers' tests: an alias and a text beside the name, `;` after the init block, registers as `P2:EAX`, numbers
/// without `$`, verdicts of models, notes to other programs.
#[test]
fn the_form_of_old_tests_is_read() {
    let text = "X86 iwp2.7/amd7 (iwpSeven)  \"Stores are seen in one order\"\n\
                {x = 0; y = 0;  P2:EAX = 0; 3:EDX=0};\n\n\
                \x20      P0     |    P1     |     P2       |      P3;\n\
                \x20 mov [x], 1 | mov [y],1 | mov EAX, [x] | mov ECX, [y];\n\
                \x20            |           | mov EBX, [y] | mov EDX, [x];\n\n\
                final (P2:EAX = 1 /\\ P2:EBX = 0 /\\ P3:ECX = 1 /\\ P3:EDX = 0);\n\
                with\ntso: ~exists;\ncc: exists;\ndefault: ~exists;\n\n\
                (* nothing of this is \"run\n<<\nshow 1\n>> *)\n<<\nshow 5 {of} 'all\n>>\n<<\nreadfrom a-rf.dot\n>>\n";
    let litmus = x86::parse(text).unwrap();
    assert_eq!(litmus.name, "iwp2.7_amd7");
    assert_eq!(
        litmus.description.as_deref(),
        Some("Stores are seen in one order")
    );
    assert_eq!(litmus.queries[0].expected.get(&TSO), Some(&Verdict::Forbidden));
    assert_eq!(litmus.queries[0].expected.len(), 1);
    let formula = &litmus.queries[0].condition.formula;
    assert!(!outcomes(&litmus).iter().any(|o| formula.holds(o)));
    // The translation is a test of the project's own language.
    let printed = litmus.print();
    let again = mowgli::litmus::parse(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
    assert_eq!(again.litmus.program, litmus.program);
}

/// A note behind a row, as in herd7's own documentation.
#[test]
fn notes_behind_rows_are_skipped() {
    let text = "X86 SB\n{ x=0; y=0; }\n P0          | P1          ;\n MOV [y],$1  | MOV [x],$1  ; #(a)Wy1 | (c)Wx1\n \
                MOV EAX,[x] | MOV EAX,[y] ; # (b)Rx0 | (d)Ry0\nexists (0:EAX=0 /\\ 1:EAX=0);\n";
    assert!(allowed(text));
}

#[test]
fn an_exchange_is_a_fence_and_atomic() {
    let sb = |fence: &str| {
        format!(
            "X86 SB\n{{ x=0; y=0; 0:EBX=1; 1:EBX=1; }}\n P0 | P1 ;\n {fence} [x],EBX | {fence} [y],EBX ;\n MOV EAX,[y] | MOV EAX,[x] ;\n\
             exists (0:EAX=0 /\\ 1:EAX=0)\n"
        )
    };
    assert!(allowed(&sb("MOV")));
    assert!(!allowed(&sb("XCHG")));
    // Two exchanges cannot both find the first number; the register has the old one.
    let locks = |ends: &str| {
        format!(
            "X86_64 locks\n{{ uint64_t x; }}\n P0 | P1 ;\n movq $1,%rax | movq $2,%rax ;\n xchgq %rax,(x) | lock; xchgq (x),%rax ;\n\
             exists ({ends})\n"
        )
    };
    assert!(!allowed(&locks("0:rax=0 /\\ 1:rax=0")));
    assert!(allowed(&locks("0:rax=0 /\\ 1:rax=1 /\\ x=2")));
    assert!(!allowed(&locks("0:rax=1 \\/ 1:rax=2")));
    let text = "X86 swap\n{ 0:EAX=1; 0:EBX=2; }\n P0 ;\n XCHG EAX,EBX ;\nforall (0:EAX=2 /\\ 0:EBX=1)\n";
    assert!(allowed(text));
}

#[test]
fn locked_additions_and_compare_exchanges_are_atomic() {
    let text =
        |add: &str| format!("X86_64 add\n{{ uint64_t x; }}\n P0 | P1 ;\n {add} | {add} ;\nexists ([x]=1)\n");
    assert!(allowed(&text("incq (x)")));
    assert!(!allowed(&text("lock incq (x)")));
    assert!(!allowed(&text("lock addq $1,(x)")));
    let text = "X86_64 cas\n{ uint64_t x; 0:rbx=1; 1:rbx=2; }\n P0 | P1 ;\n lock cmpxchgq %rbx,(x) | lock cmpxchgq (x),%rbx ;\n \
                jne L | jne L ;\n movq $7,%rcx | movq $7,%rcx ;\n L: | L: ;\n";
    assert!(!allowed(&format!("{text}exists (0:rcx=7 /\\ 1:rcx=7)\n")));
    assert!(!allowed(&format!("{text}exists (0:rcx=0 /\\ 1:rcx=0)\n")));
    assert!(allowed(&format!("{text}exists (0:rcx=7 /\\ 1:rax=1 /\\ x=1)\n")));
}

#[test]
fn jumps_lead_where_they_say() {
    // Forwards and back without a loop, as compilers place the cold part of a function.
    let text = "X86_64 A\n{ x=0; y=0; }\n P0 | P1 ;\n movl $2,(x) | mov (y),%eax ;\n movl $1,(y) | cmp $1,%eax ;\n ret | je Lb ;\n \
                movl $9,(x) | La: ;\n | mov %eax,(z) ;\n | ret ;\n | Lb: ;\n | movl $1,(x) ;\n | jmp La ;\n";
    assert!(allowed(&format!("{text}exists ([x]=1 /\\ z=1)\n")));
    assert!(!allowed(&format!("{text}exists ([x]=2 /\\ z=1)\n")));
    assert!(!allowed(&format!("{text}exists ([x]=9)\n")));
    for (jump, taken) in [
        ("jl", true),
        ("jle", true),
        ("jg", false),
        ("jge", false),
        ("jne", true),
    ] {
        let text = format!(
            "X86_64 {jump}\n{{ 0:rax=3; }}\n P0 ;\n cmpq $5,%rax ;\n {jump} L ;\n movq $1,%rbx ;\n L: nop ;\nexists (0:rbx=0)\n"
        );
        assert_eq!(allowed(&text), taken, "{jump}");
    }
}

#[test]
fn parts_of_registers_and_other_words_are_read() {
    let text = "X86_64 parts\n{ uint8_t x; 0:rip=0; int16_t 0:bx=3; }\n P0 ;\n movb $1,(x) ;\n movb (x),%al ;\n movw %bx,%r9w ;\n \
                sfence ;\n endbr64 ;\n nopw 0(%rax,%rax,0) ;\n xor %rcx,%rcx ;\nforall (0:rax=1 /\\ 0:r9=3 /\\ 0:rip=0 /\\ 0:rcx=0)\n";
    assert!(allowed(text));
    // A location may have the name of a part of a register in the form that has only registers of 32 bits.
    assert!(allowed(
        "X86 al\n{ al=0; }\n P0 ;\n MOV [al],$1 ;\nexists (al=1)\n"
    ));
}
