//! The instructions and sizes that generated programs may have.
//!
//! [`crate::enumerate`] lists the programs of a [`Language`]. Nothing here knows a model apart from [`Language::of`], which gives each
//! built-in model the instructions that it defines.

use mowgli::model::{Model, Tier};

/// The treatment of regions of relaxed ordering in a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regions {
    /// Programs with them have no meaning.
    Unknown,
    /// Programs with them have the meaning that they have without, so that models with and without regions can be compared.
    Ignored,
    /// Locations may be in them.
    Known,
}

/// The language of generated programs. Counts are upper bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Language {
    /// Instructions of all threads together.
    pub size: u8,
    /// Threads.
    pub threads: u8,
    /// Nodes.
    pub nodes: u8,
    /// Locations.
    pub locations: u8,
    /// Puts and gets.
    pub remote: bool,
    /// Puts of constants.
    pub constant_puts: bool,
    /// CPU memory fences.
    pub fences: bool,
    /// Remote fences.
    pub remote_fences: bool,
    /// CPU compare-and-swaps.
    pub cas: bool,
    /// Remote fetch-and-adds and compare-and-swaps.
    pub rmw: bool,
    /// Polls.
    pub polls: bool,
    /// Work identifiers and waits (RDMA^WAIT).
    pub waits: bool,
    /// Requests for strong order.
    pub strong: bool,
    /// Regions of relaxed ordering.
    pub regions: Regions,
    /// Whether a thread may use a queue pair to its own node.
    pub loopback: bool,
    /// Whether programs are listed too that have an instruction without purpose ([`crate::enumerate`] lists which).
    pub idle: bool,
}

impl Language {
    /// Returns the instructions that a built-in model defines ([`mowgli::check::applicable`]), without remote read-modify-writes, with at
    /// most four threads, three nodes and four locations. Requests for strong order are there where they change something.
    pub fn of(model: Model, size: u8) -> Language {
        let remote = model != Model::Tso;
        Language {
            size,
            threads: 4,
            nodes: if remote { 3 } else { 1 },
            locations: 4,
            remote,
            constant_puts: remote,
            fences: true,
            remote_fences: remote,
            cas: true,
            rmw: false,
            polls: remote && model.base() != Model::RdmaWait,
            waits: matches!(model.base(), Model::Sc | Model::RdmaWait),
            strong: remote && model.tier() != Tier::Ibta,
            regions: match model.tier().has_relaxed_regions() {
                true => Regions::Known,
                false => Regions::Ignored,
            },
            loopback: false,
            idle: false,
        }
    }

    /// Returns whether locations may be in regions of relaxed ordering.
    pub fn relaxed(&self) -> bool {
        self.regions == Regions::Known && self.remote
    }

    /// Returns the instructions that both languages have, and the smaller of each count.
    #[must_use]
    pub fn common(self, other: Language) -> Language {
        Language {
            size: self.size.min(other.size),
            threads: self.threads.min(other.threads),
            nodes: self.nodes.min(other.nodes),
            locations: self.locations.min(other.locations),
            remote: self.remote && other.remote,
            constant_puts: self.constant_puts && other.constant_puts,
            fences: self.fences && other.fences,
            remote_fences: self.remote_fences && other.remote_fences,
            cas: self.cas && other.cas,
            rmw: self.rmw && other.rmw,
            polls: self.polls && other.polls,
            waits: self.waits && other.waits,
            strong: self.strong && other.strong,
            regions: match (self.regions, other.regions) {
                (Regions::Unknown, _) | (_, Regions::Unknown) => Regions::Unknown,
                (Regions::Ignored, Regions::Ignored) => Regions::Ignored,
                _ => Regions::Known,
            },
            loopback: self.loopback && other.loopback,
            idle: self.idle && other.idle,
        }
    }
}
