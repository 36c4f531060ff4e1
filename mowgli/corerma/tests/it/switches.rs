//! Models whose rules are added and left out one by one: their names, and what they allow.

use mowgli::check;
use mowgli::outcome::Budget;
use mowgli_corerma::catalogue;
use mowgli_corerma::litmus::parse;
use mowgli_corerma::rules::{Rule, Rules};
use mowgli_corerma::switches::{Model, Variant};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn model(name: &str) -> Model {
    name.parse().unwrap()
}

/// Every model has one name, which names it.
#[test]
fn names_go_there_and_back() {
    for variant in Variant::ALL {
        assert_eq!(model(variant.name()).to_string(), variant.name());
    }
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..2000 {
        let variant = Variant::ALL[rng.random_range(0..Variant::ALL.len())];
        let mut rules = Rules::FIG4;
        for rule in Rule::ALL {
            let is_fixed = [Rule::NoC, Rule::C, Rule::CasF, Rule::CasT].contains(&rule);
            if !is_fixed && rng.random() {
                rules = match rules.has(rule) {
                    true => rules.without(rule),
                    false => rules.with(rule),
                };
            }
        }
        let made = Model::with_rules(variant, rules);
        assert_eq!(made.switches().rules, rules, "{made}");
        assert_eq!(model(&made.to_string()), made);
        assert_eq!(Model::try_from(String::from(made)).unwrap(), made);
    }
}

#[test]
fn one_model_has_one_name() {
    assert_eq!(model("corerma+inlined-put"), Model::INLINED);
    assert_eq!(model("corerma-ir"), Model::UNORDERED);
    assert_eq!(model("corerma-fig4-IR+Put-Put+get-get"), Model::INFINIBAND);
    assert_eq!(model("corerma-R1+R1"), Model::STOCK);
    // The interfaces of the paper's section 7.
    assert_eq!(model("corerma-verbs"), Model::INFINIBAND);
    assert_eq!(model("corerma-dmapp"), Model::INLINED);
    assert_eq!(model("corerma-portals"), Model::STOCK);
    assert_eq!(model("corerma-verbs-put-put"), model("corerma-ib-put-put"));
    assert_eq!(model("corerma-R2-R1").to_string(), "corerma-R1-R2");
    assert_eq!(model("corerma-CAS+put-put").to_string(), "corerma-CAS+put-put");
    assert_eq!(
        model("corerma-R1+put-put").summary(),
        "corerma without R1 and with put-put"
    );
}

#[test]
fn what_names_no_model_is_refused_with_the_rules() {
    for name in [
        "corerma-",
        "corerma+",
        "corerma-R9",
        "corerma-C",
        "corerma-no-C",
        "corerma-CAS-F",
        "corerma-R1-",
        "corermaR1",
        "rdma-tso-R1",
        "sco",
    ] {
        let error = name.parse::<Model>().unwrap_err().to_string();
        assert!(
            error.contains(name) && error.contains("+RULE or -RULE") && error.contains("put-put"),
            "{error}"
        );
    }
}

/// IR and R1 forbid condition 4 of Fig. 6, and it takes both: without one of them some execution has the outcome.
#[test]
fn a_rule_left_out_allows_what_it_forbade() {
    let litmus = catalogue::find("RMA-6").unwrap().parse().unwrap();
    let formula = &litmus.queries[3].condition.formula;
    let allows = |name: &str| {
        let search = model(name).outcomes(&litmus.program, &Budget::default());
        search.outcomes.iter().any(|outcome| formula.holds(outcome))
    };
    assert!(!allows("corerma") && !allows("corerma-F3") && !allows("corerma-GA-CAS"));
    assert!(allows("corerma-IR") && allows("corerma-R1") && allows("corerma-unordered-F1"));
}

/// A test states verdicts of any model, and prints them as they stand.
#[test]
fn tests_state_verdicts_of_changed_models() {
    let text = "coreRMA t\n{ X@1=0; }\nP0@1   ;\nX := 1 ;\na := X ;\nexists (0:a=0)\nallowed [corerma-R1;]\nforbidden [corerma;]\n";
    let litmus = parse(text).unwrap().litmus;
    for (model, verdict) in &litmus.queries[0].expected {
        let search = model.outcomes(&litmus.program, &Budget::default());
        let found = check::judge(&litmus, 0, &search);
        assert_eq!(found.meets(*verdict), Some(true), "{model}");
    }
    assert_eq!(parse(&litmus.print()).unwrap().litmus, litmus);
}
