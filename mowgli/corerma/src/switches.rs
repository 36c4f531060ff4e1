//! The variants of coreRMA: which rules a network keeps, and the names of these choices.
//!
//! Six variants and sequential consistency have names of their own. Any other is written as one of them with rules added and left out:
//! `corerma+put-put-R1`.

use std::fmt;
use std::str::FromStr;

use mowgli::model::UnknownName;
use serde::{Deserialize, Serialize};

pub use crate::rules::Switches;
use crate::rules::{Rule, Rules};

/// A variant with a name of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// The stock rules with in-order routing.
    Stock,
    /// In-order routing as Fig. 4 prints it, without statements that a process sends to itself.
    Fig4,
    /// No order among remote actions (adaptive routing).
    Unordered,
    /// InfiniBand: puts among themselves and gets among themselves are ordered (coreRMA'16 section 7).
    InfiniBand,
    /// The stock rules with inlined puts (coreRMA'16 section 7 on Fig. 9).
    Inlined,
    /// The stock rules with atomic get accumulate.
    AtomicRga,
    /// Sequential consistency: every access is atomic, and each process makes its accesses one after the other, in program order. A remote
    /// statement makes them one after the other, too; others may come between.
    Sc,
}

impl Variant {
    /// Every variant.
    pub const ALL: [Variant; 7] = [
        Variant::Stock,
        Variant::Fig4,
        Variant::Unordered,
        Variant::InfiniBand,
        Variant::Inlined,
        Variant::AtomicRga,
        Variant::Sc,
    ];

    /// Returns the name that files, options and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Variant::Stock => "corerma",
            Variant::Fig4 => "corerma-fig4",
            Variant::Unordered => "corerma-unordered",
            Variant::InfiniBand => "corerma-ib",
            Variant::Inlined => "corerma-inlined",
            Variant::AtomicRga => "corerma-atomic-rga",
            Variant::Sc => "sc",
        }
    }

    /// Says in one line what the variant is.
    pub const fn summary(self) -> &'static str {
        match self {
            Variant::Stock => "coreRMA with in-order routing (coreRMA'16 Fig. 4)",
            Variant::Fig4 => "corerma without in-order routing of a process to itself",
            Variant::Unordered => "corerma without in-order routing",
            Variant::InfiniBand => "corerma-unordered, but puts and gets are ordered among themselves",
            Variant::Inlined => "corerma with puts that read their source at once",
            Variant::AtomicRga => "corerma with get accumulates that happen at once",
            Variant::Sc => "sequential consistency; all accesses are atomic and in program order",
        }
    }

    /// Returns the variant's rules.
    pub const fn switches(self) -> Switches {
        let stock = Switches::STOCK;
        let unordered = stock.with_rules(stock.rules.without(Rule::Ir));
        match self {
            Variant::Stock => stock,
            Variant::Fig4 => Switches {
                in_order_self: false,
                ..stock
            },
            Variant::Unordered => unordered,
            Variant::InfiniBand => {
                unordered.with_rules(unordered.rules.with(Rule::PutPut).with(Rule::GetGet))
            }
            Variant::Inlined => stock.with_rules(stock.rules.with(Rule::Inlined)),
            Variant::AtomicRga => Switches {
                atomic_rga: true,
                ..stock
            },
            Variant::Sc => Switches {
                rules: Rules::SC,
                all_atomic: true,
                ..stock
            },
        }
    }
}

/// The interfaces on which coreRMA'16 section 7 ran its tests, and the variants that promise what the paper found documented: puts of less
/// than 4 KiB are inlined by DMAPP, remote actions may overtake one another over InfiniBand, and Portals 4 changes no rule.
const INTERFACES: [(&str, Variant); 3] = [
    ("corerma-dmapp", Variant::Inlined),
    ("corerma-verbs", Variant::InfiniBand),
    ("corerma-portals", Variant::Stock),
];

/// A model: a variant, perhaps with rules added and left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Model {
    variant: Variant,
    /// The rules in which it differs from the variant.
    changed: Rules,
}

impl Model {
    /// [`Variant::Stock`].
    pub const STOCK: Model = Model::of(Variant::Stock);
    /// [`Variant::Fig4`].
    pub const FIG4: Model = Model::of(Variant::Fig4);
    /// [`Variant::Unordered`].
    pub const UNORDERED: Model = Model::of(Variant::Unordered);
    /// [`Variant::InfiniBand`].
    pub const INFINIBAND: Model = Model::of(Variant::InfiniBand);
    /// [`Variant::Inlined`].
    pub const INLINED: Model = Model::of(Variant::Inlined);
    /// [`Variant::AtomicRga`].
    pub const ATOMIC_RGA: Model = Model::of(Variant::AtomicRga);

    /// [`Variant::Sc`].
    pub const SC: Model = Model::of(Variant::Sc);

    /// The models of coreRMA with names of their own: all variants but [`Variant::Sc`].
    pub const ALL: [Model; 6] = [
        Model::STOCK,
        Model::FIG4,
        Model::UNORDERED,
        Model::INFINIBAND,
        Model::INLINED,
        Model::ATOMIC_RGA,
    ];

    const fn of(variant: Variant) -> Model {
        Model {
            variant,
            changed: Rules::NONE,
        }
    }

    /// Returns the model of a variant with other rules. The model is the same however it was asked for: it differs from its variant in as
    /// few rules as can be.
    pub fn with_rules(variant: Variant, rules: Rules) -> Model {
        let wanted = variant.switches();
        // Whether IR is for statements to oneself, too, means nothing without IR.
        let is_alike = |other: &Variant| {
            let other = other.switches();
            other.atomic_rga == wanted.atomic_rga
                && other.all_atomic == wanted.all_atomic
                && (other.in_order_self == wanted.in_order_self || !rules.has(Rule::Ir))
        };
        let changed = |other: Variant| other.switches().rules.differing(rules);
        let alike = Variant::ALL.into_iter().filter(is_alike);
        let nearest = alike.min_by_key(|&other| changed(other).count());
        let variant = nearest.unwrap_or(variant);
        Model {
            variant,
            changed: changed(variant),
        }
    }

    /// Returns the model's rules.
    pub const fn switches(self) -> Switches {
        let of_variant = self.variant.switches();
        of_variant.with_rules(of_variant.rules.differing(self.changed))
    }

    /// Says in one line what the model is.
    pub fn summary(self) -> String {
        if self.changed == Rules::NONE {
            return self.variant.summary().to_owned();
        }
        let changes = Switch::ALL.into_iter().filter(|s| self.changed.has(s.rules()[0]));
        let words = changes.map(|switch| match self.switches().has(switch.rules()[0]) {
            true => format!("with {}", switch.name()),
            false => format!("without {}", switch.name()),
        });
        let words: Vec<String> = words.collect();
        format!("{} {}", self.variant.name(), words.join(" and "))
    }
}

/// A rule that can be added to a model or left out, or the two rules CAS-F and CAS-T, which order the same actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Switch(&'static str, &'static [Rule]);

impl Switch {
    /// Every switch, in the order of [`Rule::ALL`]. Rules no-C and C order nothing: they say what values are.
    const ALL: [Switch; 15] = [
        Switch("R1", &[Rule::R1]),
        Switch("R2", &[Rule::R2]),
        Switch("IR", &[Rule::Ir]),
        Switch("F1", &[Rule::F1]),
        Switch("F2", &[Rule::F2]),
        Switch("F3", &[Rule::F3]),
        Switch("PG", &[Rule::Pg]),
        Switch("GA", &[Rule::Ga]),
        Switch("CAS", &[Rule::CasF, Rule::CasT]),
        Switch("LO", &[Rule::Lo]),
        Switch("WS", &[Rule::Ws]),
        Switch("put-put", &[Rule::PutPut]),
        Switch("get-get", &[Rule::GetGet]),
        Switch("inlined-put", &[Rule::Inlined]),
        Switch("PO", &[Rule::Po]),
    ];

    const fn name(self) -> &'static str {
        self.0
    }

    const fn rules(self) -> &'static [Rule] {
        self.1
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = self.variant.name().to_owned();
        for switch in Switch::ALL {
            if self.changed.has(switch.rules()[0]) {
                name.push(if self.switches().has(switch.rules()[0]) {
                    '+'
                } else {
                    '-'
                });
                name.push_str(switch.name());
            }
        }
        f.pad(&name)
    }
}

impl From<Model> for String {
    fn from(model: Model) -> String {
        model.to_string()
    }
}

impl TryFrom<String> for Model {
    type Error = UnknownName;

    fn try_from(name: String) -> Result<Model, UnknownName> {
        name.parse()
    }
}

impl FromStr for Model {
    type Err = UnknownName;

    /// Reads the name of a variant or of an interface (`corerma-verbs`), and then each rule to add (`+RULE`) or to leave out (`-RULE`), in any case of letters.
    fn from_str(s: &str) -> Result<Model, UnknownName> {
        let read = |(name, variant): (&str, Variant)| {
            let changes = s.strip_prefix(name)?;
            let rules = change(variant.switches().rules, changes)?;
            Some(Model::with_rules(variant, rules))
        };
        let named = Variant::ALL.map(|variant| (variant.name(), variant));
        let mut names = named.into_iter().chain(INTERFACES);
        names.clone().find_map(read).ok_or_else(|| {
            let variants: Vec<&str> = names.by_ref().map(|(name, _)| name).collect();
            let variants = variants.join(", ");
            let rules = Switch::ALL.map(Switch::name).join(", ");
            UnknownName {
                kind: "model",
                found: s.to_owned(),
                expected: format!(
                    "{variants}; each may be followed by +RULE or -RULE, as in corerma-R1, where RULE is one of {rules}"
                ),
            }
        })
    }
}

/// Adds and leaves out rules as `changes` says: `+put-put-R1`. Returns nothing if it does not say so.
fn change(mut rules: Rules, mut changes: &str) -> Option<Rules> {
    while let Some(sign) = changes.chars().next() {
        let rest = changes.strip_prefix(['+', '-'])?;
        let follows = |switch: &Switch| {
            let (found, after) = rest.split_at_checked(switch.name().len())?;
            let over = after.is_empty() || after.starts_with(['+', '-']);
            (over && found.eq_ignore_ascii_case(switch.name())).then_some(after)
        };
        let (switch, after) = Switch::ALL.into_iter().find_map(|s| Some((s, follows(&s)?)))?;
        for &rule in switch.rules() {
            rules = match sign {
                '+' => rules.with(rule),
                _ => rules.without(rule),
            };
        }
        changes = after;
    }
    Some(rules)
}
