//! A node of a job: `loco_node`.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use loco::fabric::{AnyConfig, NodeId};
use loco::{Among, Config, Manager, Parent, Polling, Session, Startup, fence};

use crate::border::{Need, New, free, node_ids, run, text};
use crate::status::{Failure, Status};

/// The value of `LOCO_NO_NODE`.
pub(crate) const NO_NODE: u16 = u16::MAX;

/// Set when this process is a node, or has been one.
static OPENED: AtomicBool = AtomicBool::new(false);

/// Settings: `loco_options`.
#[derive(Debug)]
#[repr(C)]
pub struct Options {
    pub(crate) size: usize,
    pub(crate) timeout_ns: u64,
    pub(crate) fabric: *const c_char,
    pub(crate) polling_thread: c_int,
}

/// A node, or a part of the job's nodes as seen from it.
#[derive(Debug)]
pub struct Node {
    manager: Manager,
    participants: Vec<NodeId>,
    /// The session, in the handle that opened the job.
    session: Option<Session>,
}

impl Node {
    /// Returns the parent of this node's objects.
    pub(crate) fn parent(&self) -> Among<'_, Manager> {
        self.manager.among(self.participants.iter().copied())
    }

    pub(crate) fn manager(&self) -> &Manager {
        &self.manager
    }
}

impl Options {
    fn config(&self) -> Config {
        let defaults = Config::default();
        Config::default()
            .deadline(match self.timeout_ns {
                0 => defaults.deadline,
                ns => Duration::from_nanos(ns),
            })
            .polling(match self.polling_thread {
                0 => Polling::CallerDriven,
                _ => Polling::Thread,
            })
    }

    /// Returns the configuration of the fabric that the settings name.
    ///
    /// # Safety
    /// `fabric` is NULL or a string.
    unsafe fn fabric(&self) -> Result<AnyConfig, Failure> {
        let mut config = AnyConfig::from_env().map_err(loco::Error::from)?;
        if !self.fabric.is_null() {
            // SAFETY: the caller's promise.
            let name = unsafe { text(self.fabric, "options->fabric") }?;
            config.choice = name.parse().map_err(loco::Error::from)?;
        }
        Ok(config)
    }
}

/// Implements `loco_open` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_open(options: Option<&Options>, node: New<'_, Node>) -> Status {
    run(|| {
        let out = node.need("node")?;
        let mut startup = Startup::new();
        if let Some(options) = options {
            if options.size != size_of::<Options>() {
                return Err(Failure::usage(format!(
                    "options->size is {}, and {} in this library: begin with LOCO_OPTIONS_INIT, and compile with the \
                     header of this version",
                    options.size,
                    size_of::<Options>()
                )));
            }
            // SAFETY: the caller's promise.
            let fabric = unsafe { options.fabric() }?;
            startup = startup.config(options.config()).fabric(fabric);
        }
        // Relaxed: nothing depends on it. Two first calls at the same time both try, and one of them fails to meet.
        if OPENED.load(Ordering::Relaxed) {
            return Err(Failure::usage(
                "this process is a node of its job already, or has been: `loco_open` is called once",
            ));
        }
        loco::log_to_stderr();
        let session = startup.enter()?;
        OPENED.store(true, Ordering::Relaxed);
        out.write(Box::new(Node {
            manager: session.manager().clone(),
            participants: session.manager().nodes().to_vec(),
            session: Some(session),
        }));
        Ok(())
    })
}

/// Implements `loco_close` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_close(node: Option<Box<Node>>) -> Status {
    run(|| {
        let Some(mut node) = node else { return Ok(()) };
        let Some(session) = node.session.take() else {
            // Still the caller's.
            let _ = Box::into_raw(node);
            return Err(Failure::usage(
                "`loco_close` is for what `loco_open` gave; free what `loco_among` gave with `loco_node_free`",
            ));
        };
        session.leave()?;
        // Handles that the program never frees keep the node up, so that nothing else waits until the others have
        // been told. A node that is gone needs no message.
        let _ = fence::all_threads(&node.manager.thread()?);
        Ok(())
    })
}

/// Implements `loco_node_free` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_node_free(node: Option<Box<Node>>) -> Status {
    free(node)
}

/// Implements `loco_among` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_among(
    node: Option<&Node>,
    nodes: *const u16,
    count: usize,
    among: New<'_, Node>,
) -> Status {
    run(|| {
        let (node, out) = (node.need("node")?, among.need("among")?);
        // SAFETY: the caller's promise.
        let nodes = unsafe { node_ids(nodes, count, "nodes") }?;
        let all = node.manager.nodes();
        if let Some(stranger) = nodes.iter().find(|id| !all.contains(id)) {
            return Err(Failure::usage(format!(
                "{stranger} is not part of this job, which has {}",
                NodeId::list(all.iter().copied())
            )));
        }
        let participants = node.manager.among(nodes).participants();
        out.write(Box::new(Node {
            manager: node.manager.clone(),
            participants: participants.nodes().to_vec(),
            session: None,
        }));
        Ok(())
    })
}

/// Implements `loco_self` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_self(node: Option<&Node>) -> u16 {
    node.map_or(NO_NODE, |node| node.manager.node().0)
}

/// Implements `loco_nodes` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_nodes(node: Option<&Node>, nodes: *mut u16, capacity: usize) -> usize {
    let Some(node) = node else { return 0 };
    let ids = node.participants.iter().map(|id| id.0);
    if !nodes.is_null() {
        for (i, id) in ids.take(capacity).enumerate() {
            // SAFETY: the caller's promise: there is room for `capacity` ids.
            unsafe { nodes.add(i).write(id) };
        }
    }
    node.participants.len()
}

/// Implements `loco_wait_for_ready` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_wait_for_ready(node: Option<&Node>) -> Status {
    run(|| Ok(node.need("node")?.manager.wait_for_ready()?))
}
