//! Lists every implementation with every mistake, by name. Each comes with the specification that it is
//! compared with and the clients that show the mistake.

use super::{
    BarrierMistake, IBal, IMsv, IMsw, IRbl, ISv, IW, MsvMistake, MswMistake, RingMistake, SvMistake,
    WaitMistake,
};
use crate::client::{Library, Method, Setting};
use crate::enumerate::Bounds;
use crate::implementation::{Implementation, Rules};
use crate::libraries::{Reach, libraries};

/// An implementation that can be asked for by name.
#[derive(Clone)]
pub struct Named<'a> {
    /// `I_BAL`, or `I_BAL/no-fence` with a mistake.
    pub name: &'a str,
    /// A description in one line.
    pub about: &'a str,
    /// The code.
    pub implementation: &'a dyn Implementation,
    /// The implementations that it stands on; the other libraries that it uses are by specification.
    pub below: &'a [&'a dyn Implementation],
    /// The specification that it is compared with.
    pub setting: Setting,
    /// The number of calls of the smallest client that refutes it, if it has a mistake.
    pub refuted_with: Option<usize>,
}

/// The calls of the clients that an implementation is tried with at least, however small the clients are that refute its
/// mistakes.
const CALLS_LEAST: usize = 4;

impl<'a> Named<'a> {
    /// Returns whether it should refine its specification.
    pub fn is_sound(&self) -> bool {
        self.refuted_with.is_none()
    }

    /// Returns the most calls of the clients that it is tried with, if nobody says otherwise: enough to refute every mistake
    /// that is known of implementations of its library against its specification, and at least four.
    pub fn calls(&self) -> usize {
        let library = self.implementation.library();
        let alike = |n: &&Named<'_>| n.implementation.library() == library && n.setting == self.setting;
        let known = ALL.iter().filter(alike).filter_map(|n| n.refuted_with);
        known.fold(CALLS_LEAST, usize::max)
    }

    /// Returns the bounds of all clients that it is tried with: those of [`Self::bounds`], which are the last, and others by which mistakes
    /// show that those do not show.
    pub fn families(&self, calls_max: usize) -> Vec<Bounds> {
        let own = self.bounds(calls_max);
        match self.implementation.library() {
            // Only a barrier tells a reader that a broadcast must have arrived.
            Library::SharedVariable => {
                let with_barrier = Bounds {
                    libraries: vec![Library::SharedVariable, Library::Barrier],
                    methods: vec![Method::Barrier, Method::WriteSv, Method::ReadSv, Method::BcastSv],
                    ..own.clone()
                };
                vec![with_barrier, own]
            }
            _ => vec![own],
        }
    }

    /// Returns the bounds of the clients that it is tried with first. They use its library, and libraries that make
    /// its faults visible.
    pub fn bounds(&self, calls_max: usize) -> Bounds {
        let library = self.implementation.library();
        let mut bounds = Bounds::of(&[library], calls_max);
        match library {
            // The methods that a wait is about.
            Library::RdmaWait => {
                bounds.methods = vec![
                    Method::Write,
                    Method::Read,
                    Method::Get,
                    Method::Put,
                    Method::Wait,
                ];
            }
            Library::Barrier => {
                // A fence that is only for participants shows where a node has none.
                bounds.threads_max = if self.setting == Setting::TransitiveBarrier {
                    3
                } else {
                    2
                };
                bounds.libraries.push(Library::SharedVariable);
                bounds.methods = vec![Method::Barrier, Method::WriteSv, Method::ReadSv, Method::BcastSv];
            }
            Library::RingBuffer if self.setting == Setting::PaperRing => {
                // The definition as printed is about a writer that reads its own ring, beside a thread of its node.
                bounds.nodes_max = 1;
                bounds.libraries.push(Library::RdmaWait);
                bounds.methods = vec![Method::Submit, Method::Receive, Method::Read, Method::Cas];
            }
            _ => {}
        }
        bounds
    }

    /// Returns the bounds of the clients that decide its local soundness. They use only its library (LOCO'26
    /// Def. 3.13).
    pub fn local_bounds(&self, calls_max: usize) -> Bounds {
        Bounds {
            results: false,
            ..Bounds::of(&[self.implementation.library()], calls_max)
        }
    }

    /// Returns the rules with the implementation, on top of the libraries that it uses.
    pub fn implemented(&self, iterations_max: u32) -> Rules<'a> {
        let implementations = std::iter::once(self.implementation).chain(self.below.iter().copied());
        self.specified(iterations_max).stacked(implementations)
    }

    /// Returns the rules of the specification that it is compared with.
    pub fn specified(&self, iterations_max: u32) -> Rules<'a> {
        Rules {
            libraries: libraries(self.setting),
            implementations: Vec::new(),
            iterations_max,
        }
    }
}

macro_rules! named {
    ($($name:literal $about:literal $setting:ident $refuted_with:expr, $implementation:expr;)+) => {
        /// Every named implementation.
        pub const ALL: &[Named<'static>] = &[$(Named {
            name: $name,
            about: $about,
            implementation: &$implementation,
            below: &[],
            setting: Setting::$setting,
            refuted_with: $refuted_with,
        }),+];
    };
}

const fn wait(mistake: WaitMistake) -> IW {
    IW {
        mistake: Some(mistake),
    }
}

const fn sv(mistake: SvMistake) -> ISv {
    ISv {
        strong: false,
        mistake: Some(mistake),
    }
}

const fn bal(mistake: BarrierMistake) -> IBal {
    IBal {
        reach: Reach::Participants,
        mistake: Some(mistake),
    }
}

const fn rbl(mistake: RingMistake) -> IRbl {
    IRbl {
        strong: false,
        fence_own: false,
        mistake: Some(mistake),
    }
}

const fn msw(mistake: MswMistake) -> IMsw {
    IMsw {
        mistake: Some(mistake),
    }
}

const fn msv(mistake: MsvMistake) -> IMsv {
    IMsv {
        mistake: Some(mistake),
    }
}

named! {
    "I_W" "RDMA^WAIT over RDMA^TSO (Fig. 24)" Spec None, IW { mistake: None };
    "I_SV" "shared variables over RDMA^WAIT (LOCO'26 3.5)" Spec None, ISv { strong: false, mistake: None };
    "I_SV/strong" "with a global fence that asks for strong order: one on every tier" Spec None, ISv { strong: true, mistake: None };
    "I_BAL" "barriers over shared variables (Fig. 11)" Spec None, IBal { reach: Reach::Participants, mistake: None };
    "I_BAL/all-nodes" "barriers that fence all nodes (section 4.3), against the transitive specification" TransitiveBarrier None,
        IBal { reach: Reach::AllNodes, mistake: None };
    "I_RBL" "ring buffers over shared variables (Fig. 14), against Def. 5.2 with rf_e" Spec None,
        IRbl { strong: false, fence_own: false, mistake: None };
    "I_RBL/strong" "with a head that asks for strong order: a ring on every tier" Spec None,
        IRbl { strong: true, fence_own: false, mistake: None };
    "I_RBL/weak" "the same against the weak alternative (section 5.1)" WeakRing None, IRbl { strong: false, fence_own: false, mistake: None };
    "I_RBL/paper" "the same against Def. 5.2 as printed" PaperRing Some(5), IRbl { strong: false, fence_own: false, mistake: None };
    "I_RBL/fenced" "with a fence before a writer reads its own ring, against Def. 5.2 as printed" PaperRing None,
        IRbl { strong: false, fence_own: true, mistake: None };
    "I_MSW" "mixed-size writes over RDMA^WAIT (Fig. 28)" Spec None, IMsw { mistake: None };
    "I_MSV" "mixed-size shared variables over mixed-size writes (MSW-Broadcast, G.6.1)" Spec None, IMsv { mistake: None };

    "I_W/one-poll" "a wait polls each node once" Spec Some(5), wait(WaitMistake::OnePoll);
    "I_W/first-node-only" "a wait polls the first node only" Spec Some(4), wait(WaitMistake::FirstNodeOnly);
    "I_W/no-poll" "a wait does not poll" Spec Some(4), wait(WaitMistake::NoPoll);

    "I_SV/fence-without-wait" "the global fence does not wait" Spec Some(4), sv(SvMistake::FenceWithoutWait);
    "I_SV/fence-waits-first" "the global fence waits before its gets" Spec Some(4), sv(SvMistake::FenceWaitsFirst);
    "I_SV/fence-by-puts" "the global fence makes puts" Spec Some(4), sv(SvMistake::FenceByPuts);
    "I_SV/fence-leaves-out" "the global fence leaves out a node" Spec Some(4), sv(SvMistake::FenceLeavesOut);
    "I_SV/wait-for-other" "a wait names another identifier" Spec Some(4), sv(SvMistake::WaitForOther);
    "I_SV/bcast-leaves-out" "a broadcast leaves out a node" Spec Some(5), sv(SvMistake::BroadcastLeavesOut);

    "I_BAL/no-fence" "no global fence" Spec Some(4), bal(BarrierMistake::NoFence);
    "I_BAL/fence-after-counter" "the fence after the counter is told" Spec Some(5), bal(BarrierMistake::FenceAfterCounter);
    "I_BAL/fence-leaves-out-own" "the fence leaves out the own node" Spec Some(4), bal(BarrierMistake::FenceLeavesOutOwn);
    "I_BAL/fence-own-only" "the fence is for the own node only" Spec Some(5), bal(BarrierMistake::FenceOwnOnly);
    "I_BAL/no-loop" "does not wait for the others" Spec Some(2), bal(BarrierMistake::NoLoop);
    "I_BAL/first-loop-only" "waits for the first participant only" Spec Some(3), bal(BarrierMistake::FirstLoopOnly);
    "I_BAL/at-least" "waits for counters that are at least as large" Spec Some(2), bal(BarrierMistake::AtLeast);
    "I_BAL/participants" "fences participants' nodes only, against the transitive specification" TransitiveBarrier Some(5),
        IBal { reach: Reach::Participants, mistake: None };

    "I_RBL/no-wait" "no wait for the head's last broadcast" Spec Some(4), rbl(RingMistake::NoWait);
    "I_RBL/wait-after-write" "the wait between the head's write and its broadcast" Spec Some(4), rbl(RingMistake::WaitAfterWrite);
    "I_RBL/head-first" "the head before the data" Spec Some(2), rbl(RingMistake::HeadFirst);
    "I_RBL/data-not-sent" "the data is not sent" Spec Some(2), rbl(RingMistake::DataNotSent);
    "I_RBL/emptiness-not-checked" "a receive does not look for a message" Spec Some(1), rbl(RingMistake::EmptinessNotChecked);
    "I_RBL/acknowledge-first" "a receive acknowledges before it reads" Spec Some(3), rbl(RingMistake::AcknowledgeFirst);
    "I_RBL/no-room-check" "a submit does not look for room" Spec Some(3), rbl(RingMistake::NoRoomCheck);
    "I_RBL/room-off-by-one" "a submit counts one cell too many" Spec Some(3), rbl(RingMistake::RoomOffByOne);

    "I_MSW/no-check" "a read does not compare the hash" Spec Some(2), msw(MswMistake::NoCheck);
    "I_MSW/hash-of-first-word" "the hash is of the first word" Spec Some(2), msw(MswMistake::HashOfFirstWord);
    "I_MSW/hash-is-sum" "the hash is the sum of the words" Spec Some(3), msw(MswMistake::HashIsSum);

    "I_MSV/torn-is-zero" "a read that fails returns zeros" Spec Some(2), msv(MsvMistake::TornIsZero);
    "I_MSV/no-wait" "a wait for broadcasts does not wait" Spec Some(4), msv(MsvMistake::NoWait);
}

/// Returns the implementation with this name.
pub fn by_name(name: &str) -> Option<&'static Named<'static>> {
    ALL.iter().find(|named| named.name == name)
}
