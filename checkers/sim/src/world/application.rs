//! Worlds whose nodes run an application as it is: one that names no fabric and begins with `loco::run` or `loco::Startup`.
//!
//! Relies on the arm of `AnyFabric` for a fabric of any type, behind which the model fabric is. Knows nothing of objects; that the feature
//! depends on them is for their side of that arm, by which a node begins.

use std::cell::RefCell;
use std::fmt::Display;

use loco_any::AnyFabric;
use loco_any::erased::ErasedFabric;
use loco_any::played::install;

use crate::fabric::blame::Blame;
use crate::fabric::coroutine::current;
use crate::fabric::platform::ModelPlatform;
use crate::{ModelFabric, World};

thread_local! {
    /// The fabrics of the nodes whose threads this OS thread runs. [`forget`] clears them when the run ends.
    static FABRICS: RefCell<Vec<Option<ModelFabric>>> = const { RefCell::new(Vec::new()) };
}

/// Gives the node of the running thread its fabric.
fn set(fabric: &ModelFabric) {
    let Some((_, node)) = current() else { return };
    FABRICS.with_borrow_mut(|fabrics| {
        let node = usize::from(node);
        fabrics.resize_with(fabrics.len().max(node + 1), || None);
        fabrics[node] = Some(fabric.clone());
    });
}

/// Forgets the fabrics of a run, so that the next one on this OS thread does not get them.
pub(super) fn forget() {
    drop(FABRICS.take());
}

/// Returns the fabric of the running thread's node.
fn fabric_of_this_thread() -> Option<AnyFabric> {
    let (_, node) = current()?;
    let fabric = FABRICS.with_borrow(|fabrics| fabrics.get(usize::from(node)).cloned().flatten())?;
    Some(AnyFabric::Model(ErasedFabric::new(fabric)))
}

impl World {
    /// Adds the nodes of an application. Each calls `main`, which may be the application's own `main`: where that calls `loco::run`, or
    /// `connect`, `enter` or `run` of a `loco::Startup`, it becomes a node of this world, without a look at the environment or at a
    /// network. Types that name no fabric, such as `loco::Manager` and `loco::KvStore<u64, u64>`, are those of the model then. All
    /// steps are explored, as those of a [`program`](World::program) are.
    ///
    /// The application takes its clock, its threads, and the locks and atomics that its threads share, from the platform
    /// (`node.fabric().platform()`), and ends by itself. What it takes from `std` is not the model's: a thread of `std` cannot use objects of
    /// this world. The fabric is built from no mesh, and `AnyFabric::mesh` panics.
    pub fn application<E: Display>(
        &mut self,
        nodes: u16,
        main: impl Fn() -> Result<(), E> + Send + Sync + 'static,
    ) {
        self.application_with_faults(nodes, main, |_| None);
    }

    /// Adds the nodes of an application, as [`application`](World::application) does, where [`Faults`](crate::Faults) may happen.
    /// `blames` is that of [`program_with_faults`](World::program_with_faults).
    pub fn application_with_faults<E: Display>(
        &mut self,
        nodes: u16,
        main: impl Fn() -> Result<(), E> + Send + Sync + 'static,
        blames: impl Fn(&E) -> Option<Blame> + Send + Sync + 'static,
    ) {
        install::<ModelPlatform>(|| current().is_some(), fabric_of_this_thread);
        let program = move |fabric| {
            set(&fabric);
            main()
        };
        self.program_with_faults(nodes, program, blames);
    }
}
