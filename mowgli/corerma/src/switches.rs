//! The variants of coreRMA that networks give, and the names of those that can be asked for.

use std::fmt;
use std::str::FromStr;

use mowgli::model::UnknownName;
use serde::{Deserialize, Serialize};

/// The guarantees of a network beside the rules of coreRMA'16 Fig. 4 that all networks share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Switches {
    /// In-order routing (rule IR): remote actions towards one target are ordered.
    pub in_order: bool,
    /// Rule IR holds for statements that a process sends to itself, too. Fig. 4 as printed excludes them; the tests that
    /// the paper counts with one process do not.
    pub in_order_self: bool,
    /// The remote writes of puts towards one target are ordered (InfiniBand, coreRMA'16 section 7).
    pub put_put: bool,
    /// The remote reads of gets towards one target are ordered (InfiniBand).
    pub get_get: bool,
    /// A put reads its source when it is issued (inlined data, coreRMA'16 section 7 on Fig. 9).
    pub inlined_put: bool,
    /// The actions of a get accumulate happen at once (the strengthened rule GA of coreRMA'16 section 7).
    pub atomic_rga: bool,
}

impl Switches {
    /// coreRMA as its authors generated tests from it.
    pub const STOCK: Switches = Switches {
        in_order: true,
        in_order_self: true,
        put_put: false,
        get_get: false,
        inlined_put: false,
        atomic_rga: false,
    };
}

/// A variant with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Model {
    /// The stock rules with in-order routing.
    #[serde(rename = "corerma")]
    Stock,
    /// In-order routing as Fig. 4 prints it, without statements that a process sends to itself.
    #[serde(rename = "corerma-fig4")]
    Fig4,
    /// No order among remote actions (adaptive routing).
    #[serde(rename = "corerma-unordered")]
    Unordered,
    /// InfiniBand: puts among themselves and gets among themselves are ordered.
    #[serde(rename = "corerma-ib")]
    InfiniBand,
    /// The stock rules with inlined puts.
    #[serde(rename = "corerma-inlined")]
    Inlined,
    /// The stock rules with atomic get accumulate.
    #[serde(rename = "corerma-atomic-rga")]
    AtomicRga,
}

impl Model {
    /// Every model.
    pub const ALL: [Model; 6] = [
        Model::Stock,
        Model::Fig4,
        Model::Unordered,
        Model::InfiniBand,
        Model::Inlined,
        Model::AtomicRga,
    ];

    /// Returns the name that files, options and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Model::Stock => "corerma",
            Model::Fig4 => "corerma-fig4",
            Model::Unordered => "corerma-unordered",
            Model::InfiniBand => "corerma-ib",
            Model::Inlined => "corerma-inlined",
            Model::AtomicRga => "corerma-atomic-rga",
        }
    }

    /// Says in one line what the model is.
    pub const fn summary(self) -> &'static str {
        match self {
            Model::Stock => "coreRMA with in-order routing (coreRMA'16 Fig. 4)",
            Model::Fig4 => "corerma without in-order routing of a process to itself",
            Model::Unordered => "corerma without in-order routing",
            Model::InfiniBand => "corerma-unordered, but puts and gets are ordered among themselves",
            Model::Inlined => "corerma with puts that read their source at once",
            Model::AtomicRga => "corerma with get accumulates that happen at once",
        }
    }

    /// Returns the model's rules.
    pub const fn switches(self) -> Switches {
        let stock = Switches::STOCK;
        let unordered = Switches {
            in_order: false,
            in_order_self: false,
            ..stock
        };
        match self {
            Model::Stock => stock,
            Model::Fig4 => Switches {
                in_order_self: false,
                ..stock
            },
            Model::Unordered => unordered,
            Model::InfiniBand => Switches {
                put_put: true,
                get_get: true,
                ..unordered
            },
            Model::Inlined => Switches {
                inlined_put: true,
                ..stock
            },
            Model::AtomicRga => Switches {
                atomic_rga: true,
                ..stock
            },
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Model {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Model, UnknownName> {
        UnknownName::find("model", &Model::ALL, Model::name, s)
    }
}
