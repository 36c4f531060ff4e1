//! The node: `loco.start` and `loco.Node`.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loco::fabric::{Address, AnyConfig, Job, NodeId, Secret};
use loco::fence::{self, Scope};
use loco::{Config, Session, Startup};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::calls::{Base, Parent, limit, polling, waiting};
use crate::errors::{self, Kind};

/// The time between two looks at signals while the nodes meet.
const LOOK: Duration = Duration::from_millis(20);

/// Set when this process is a node, or has been one.
static STARTED: AtomicBool = AtomicBool::new(false);

/// A node of a job, or some of the job's nodes as seen from it.
///
/// `loco.start` makes it. In a `with` statement it leaves the job at the end of the block, and waits for the other nodes to do the
/// same. If the block raises, it does not wait: the others see it leave when its process ends, or when the last of its objects is gone.
#[pyclass(frozen, module = "loco")]
pub(crate) struct Node {
    parent: Parent,
    /// The session, in the node that `start` has made.
    session: Mutex<Option<Session>>,
    /// Set in the node that `start` has made.
    is_whole: bool,
}

impl Node {
    /// Returns the parent of this node's objects.
    pub(crate) fn parent(&self) -> &Parent {
        &self.parent
    }

    fn take_session(&self) -> Option<Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the exception of `call`, which ends a node, where this is only some of the nodes.
    fn is_part(&self, py: Python<'_>, call: &str) -> PyErr {
        let nodes = NodeId::list(self.parent.participants.iter().copied());
        errors::new(
            py,
            Kind::Usage,
            &format!(
                "{call} is for the node that `loco.start` gave, and this is what `among` gave for {nodes}: give it to the objects, \
                 and end the node"
            ),
        )
    }
}

#[pymethods]
impl Node {
    /// This node's number.
    #[getter]
    fn id(&self) -> u16 {
        self.parent.base.manager().node().0
    }

    /// The numbers of the job's nodes, or of those among which objects are made.
    #[getter]
    fn nodes(&self) -> Vec<u16> {
        self.parent.participants.iter().map(|node| node.0).collect()
    }

    /// Waits until all objects of this node are connected to those of the other nodes.
    #[pyo3(signature = (timeout = None))]
    fn wait_for_ready(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let limit = limit(timeout)?;
        self.parent.base.call(py, limit, |thread| {
            let deadline = thread.deadline();
            self.parent.base.manager().wait_for_ready_until(deadline)
        })
    }

    /// Returns this node as the parent of objects among some of the nodes.
    fn among(&self, py: Python<'_>, nodes: Vec<u16>) -> PyResult<Node> {
        let all = self.parent.base.manager().nodes();
        let participants: Vec<NodeId> = nodes.into_iter().map(NodeId).collect();
        if let Some(stranger) = participants.iter().find(|node| !all.contains(node)) {
            let message = format!(
                "{stranger} is not part of this job, which has {}",
                NodeId::list(all.iter().copied())
            );
            return Err(errors::new(py, Kind::Usage, &message));
        }
        Ok(Node {
            parent: Parent {
                base: self.parent.base.clone(),
                participants,
            },
            session: Mutex::new(None),
            is_whole: false,
        })
    }

    /// Waits until what this thread has put is placed. `scope` is "thread" or "all_threads".
    #[pyo3(signature = (scope = "thread", timeout = None))]
    fn fence(&self, py: Python<'_>, scope: &str, timeout: Option<f64>) -> PyResult<()> {
        let (scope, limit) = (scope_of(scope)?, limit(timeout)?);
        self.parent.base.call(py, limit, |thread| scope.fence(thread))
    }

    /// Leaves the job, when every other node does: waits for them without a time limit. A second call does nothing. If a handler
    /// of a signal ends the wait, the node leaves without the others.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_whole {
            return Err(self.is_part(py, "`close`"));
        }
        let base = &self.parent.base;
        waiting(py, || {
            // Taken inside of the call: a handler of a signal that is refused it leaves the node as it is.
            let Some(session) = self.take_session() else {
                return Ok(());
            };
            let left = session.leave().and_then(|()| base.manager().thread());
            // Objects that Python has not collected keep the node up, so that nothing else waits until the others have
            // been told. A node that is gone needs no message.
            let told = left.map(|thread| drop(fence::all_threads(&thread)));
            base.leave();
            Ok(told?)
        })
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        match slf.get().is_whole {
            true => Ok(slf),
            false => Err(slf.get().is_part(slf.py(), "a `with` statement")),
        }
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        raised: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        if raised.is_none() {
            self.close(py)?;
        } else {
            // The others wait for nothing that this node will not do.
            self.parent.base.leave();
            let session = self.take_session();
            py.detach(|| drop(session));
        }
        Ok(false)
    }

    fn __repr__(&self) -> String {
        let nodes = NodeId::list(self.parent.participants.iter().copied());
        format!("<loco.Node: {} among {nodes}>", self.parent.base.manager().node())
    }
}

/// Returns the scope of a fence with this name.
pub(crate) fn scope_of(name: &str) -> PyResult<Scope> {
    match name {
        "nothing" => Ok(Scope::Nothing),
        "thread" => Ok(Scope::Thread),
        "all_threads" => Ok(Scope::AllThreads),
        _ => Err(PyValueError::new_err(format!(
            "no scope \"{name}\": there are \"nothing\", \"thread\" and \"all_threads\""
        ))),
    }
}

/// Makes this process a node of the job that it was started in, and waits until the other nodes have done the same.
///
/// `timeout` is the time in seconds that later calls wait if they are given none. `fabric` names a network, in place of that of
/// `LOCO_FABRIC`. With `alone=True` the process is a job of one node, and needs no launcher.
#[pyfunction]
#[pyo3(signature = (*, timeout = 10.0, fabric = None, alone = false))]
pub(crate) fn start(py: Python<'_>, timeout: f64, fabric: Option<&str>, alone: bool) -> PyResult<Node> {
    loco::log_to_stderr();
    let raise = |error: loco::Error| errors::raise(py, &error);
    let mut startup = Startup::new();
    if let Some(limit) = limit(Some(timeout))? {
        startup = startup.config(Config::default().deadline(limit));
    }
    if alone {
        startup = startup.job(job_of_one().map_err(raise)?);
    }
    let mut config = AnyConfig::from_env().map_err(|error| raise(error.into()))?;
    match fabric {
        Some(name) => config.choice = name.parse().map_err(|error| raise(loco::Error::from(error)))?,
        None if alone && std::env::var_os(loco::fabric::var::FABRIC).is_none() => {
            config.choice = loco::fabric::FabricChoice::Shm;
        }
        None => {}
    }
    let startup = startup.fabric(config);
    // Relaxed: nothing depends on it. Of two calls at the same time, one fails to meet.
    if STARTED.load(Ordering::Relaxed) {
        return Err(errors::new(
            py,
            Kind::Usage,
            "this process is a node of its job already, or has been: call `loco.start` once",
        ));
    }
    let session = meet(py, startup)?;
    STARTED.store(true, Ordering::Relaxed);
    let manager = session.manager().clone();
    let participants = manager.nodes().to_vec();
    Ok(Node {
        parent: Parent {
            base: Base::new(manager),
            participants,
        },
        session: Mutex::new(Some(session)),
        is_whole: true,
    })
}

/// Returns a job of this process only.
fn job_of_one() -> loco::Result<Job> {
    // Nobody will come. A port that is free now is as good as any.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let free = free.map_err(|error| loco::Error::Config(format!("no free port on loopback: {error}")))?;
    Ok(Job::builder(NodeId(0))
        .id(format!("alone-{}", std::process::id()))
        .secret(Secret::new(Secret::random_text()?.into_bytes())?)
        .rendezvous(1, Address::parse(&free.to_string(), None)?)?)
}

/// Meets the other nodes on a thread of its own, as meeting asks for no signals. A thread that meets in vain gives up by itself.
fn meet(py: Python<'_>, startup: Startup) -> PyResult<Session> {
    let (met, meets) = mpsc::channel();
    let thread = std::thread::Builder::new().name("loco meets".to_owned());
    let spawned = thread.spawn(move || met.send(startup.enter()));
    spawned.map_err(|error| {
        errors::new(
            py,
            Kind::Exhausted,
            &format!("no thread to meet other nodes: {error}"),
        )
    })?;
    let look = move || match meets.recv_timeout(LOOK) {
        Ok(met) => Some(Ok(met)),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Err(())),
    };
    match polling(py, look, || {})? {
        Ok(met) => met.map_err(|error| errors::raise(py, &error)),
        Err(()) => Err(errors::new(
            py,
            Kind::Panicked,
            "meeting the other nodes panicked: standard error has the message",
        )),
    }
}

/// Objects of several threads, as Python requires.
const _: () = {
    const fn any_thread<T: Send + Sync>() {}
    any_thread::<Node>();
    any_thread::<Arc<Base>>();
};
