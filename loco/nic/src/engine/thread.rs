//! The NIC's one instance in a process, its lock, and its threads.
//!
//! One thread carries out what others ask for while the program does something else. It sleeps on a bell, which processes of this
//! host ring, and calls that leave it something to do. A second one waits for sockets: new connections, other hosts, and the end of
//! processes. A program that polls does their work in its calls; while it does, others ring for less, and the second thread looks in.
//! (The first could look in by itself, but to sleep for a time costs a virtual machine four times what it costs to sleep.)

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::{Duration, Instant};

use loco_host::dispatch::Destination;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::sched_getaffinity;

use super::company::Company;
use super::core::Nic;
use super::forked::{self, Stopped};
use crate::abroad::is_nobody;
use crate::child::is_child;
use crate::events::lock;
use crate::log;
use crate::settings::{abroad, settings};
use crate::threads::{begin, spawn, take_short_turns};
use crate::world::World;
use crate::{counts, trace};

static NIC: OnceLock<Mutex<Nic>> = OnceLock::new();
/// The NIC's place in its world: who leaves it when the process ends does not wait for the NIC.
static WORLD: OnceLock<Arc<World>> = OnceLock::new();
/// Who takes connections in that are for a port: the connection manager, once somebody listens.
static WELCOME: OnceLock<fn(loco_job::Link)> = OnceLock::new();
/// Taken while the NIC starts.
static STARTING: Mutex<()> = Mutex::new(());
/// True while the thread sleeps on its bell and would not see new work.
static ASLEEP: AtomicBool = AtomicBool::new(false);
/// When a call that looks for completions has last done the thread's work.
static POLLED: AtomicU64 = AtomicU64::new(0);
/// For so long, a host may leave a connection pending. It is more than many queue pairs have patience for, since their peers are
/// expected to be known by then.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
/// While calls do the work, a thread looks in as seldom as this.
const LOOKS_IN: Duration = Duration::from_micros(500);
/// Without a descriptor for a connection that comes, a thread looks as seldom as this.
const SHORT: Duration = Duration::from_millis(20);
/// One of so many calls looks at sockets, too: where many programs poll, the thread that waits for these gets no processor soon.
const SOCKETS_EVERY: u32 = 256;
/// Calls do the work if the thread has been woken so often in a row without finding a message. A program that polls its memory, and not a
/// completion queue, makes a call now and then, but leaves its messages to the thread. The first message after that may wait for one
/// look.
const VAIN_MAX: u32 = 8;

fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// Starts the NIC, if it is not started.
///
/// # Errors
/// Fails as [`Nic::new`] does.
pub(crate) fn start() -> io::Result<()> {
    forked::prepare(|| Stopped {
        _starting: lock(&STARTING),
        nic: NIC.get().map(lock),
    })?;
    let _starting = lock(&STARTING);
    if NIC.get().is_some() {
        return Ok(());
    }
    let nic = Nic::new(settings())?;
    let _ = WORLD.set(Arc::clone(&nic.world));
    let (world, number) = (Arc::clone(&nic.world), nic.world.number);
    let _ = NIC.set(Mutex::new(nic));
    spawn("loco-nic", run)?;
    spawn("loco-nic-sockets", watch)?;
    at_exit();
    if let Some(abroad) = abroad() {
        abroad.accept(
            &world.opened,
            world.place(),
            move |connection, destination| match destination {
                Destination::Process(wanted) if wanted == number => {
                    let mut nic = self::nic();
                    nic.take_in(connection);
                    poke(nic);
                }
                // Another had its place before.
                Destination::Process(_) => {}
                Destination::Port { .. } => {
                    if let Some(welcome) = WELCOME.get() {
                        welcome(connection);
                    }
                }
            },
        )?;
    }
    Ok(())
}

/// Gives connections from other hosts that are for a port to this function, each in a thread of its own.
pub(crate) fn welcome_by(welcome: fn(loco_job::Link)) {
    let _ = WELCOME.set(welcome);
}

/// Connects to the processes of other hosts for which links are to come about. Returns false if some have failed already, which
/// gives their queue pairs something to do.
fn set_out(nic: &mut Nic) -> bool {
    let mut begun = true;
    for (id, number) in nic.take_visits() {
        if let Err(error) = begin("loco-nic-connect", move || connect(id, number)) {
            nic.has_come(id, Err(error));
            begun = false;
        }
    }
    begun
}

fn connect(id: u64, number: u32) {
    let Some(abroad) = abroad() else { return };
    let visited = match abroad.host_of(number) {
        Some(host) => abroad.connect(host, Destination::Process(number), CONNECT_PATIENCE),
        None => Err(io::ErrorKind::NotFound.into()),
    };
    if let Err(error) = &visited
        && !is_nobody(error)
    {
        log::once(format_args!("cannot connect to process {number}: {error}"));
    }
    let mut nic = nic();
    nic.has_come(id, visited);
    poke(nic);
}

/// Returns the NIC, locked.
///
/// # Panics
/// If it is not started: a device is opened before anything else is done.
pub(crate) fn nic() -> MutexGuard<'static, Nic> {
    lock(NIC.get().expect("a device was opened"))
}

/// Returns the NIC unless another thread has it.
fn try_lock(shared: &Mutex<Nic>) -> Option<MutexGuard<'_, Nic>> {
    match shared.try_lock() {
        Ok(nic) => Some(nic),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Does the thread's work within a call, and tells the thread what is left.
pub(crate) fn poke(mut nic: MutexGuard<'_, Nic>) {
    go_on(&mut nic, false);
    settle(&mut nic);
}

/// Leaves requests to calls no longer if no request of this process is under way that a call would still look for.
fn settle(nic: &mut Nic) {
    if nic.foresight.has_left() && !nic.is_under_way() && nic.give_back() {
        go_on(nic, false);
    }
}

/// The part of the thread's work that a call which looks for completions has done.
#[derive(Clone, Copy, Default)]
pub(crate) struct Worked {
    /// Requests of others that fill no receive were part of it.
    served: bool,
    /// Requests of others are left to calls, although none of this process is under way.
    leaves: bool,
}

/// Does the thread's work within a call that looks for completions, if nobody else does.
pub(crate) fn work() -> Worked {
    NIC.get().map(work_on).unwrap_or_default()
}

fn work_on(shared: &Mutex<Nic>) -> Worked {
    let Some(mut nic) = try_lock(shared) else {
        return Worked::default();
    };
    let elapsed = u64::try_from(epoch().elapsed().as_nanos()).unwrap_or(u64::MAX);
    POLLED.store(elapsed, Ordering::Relaxed);
    nic.looks = nic.looks.wrapping_add(1);
    let sockets = nic.looks.is_multiple_of(SOCKETS_EVERY);
    // A request that is about to come is for this call or the next one, and need not wake the thread.
    if nic.leave_the_foreseen() {
        ring(&nic.look_in);
    }
    let came = go_on(&mut nic, sockets);
    Worked {
        served: came.requests,
        leaves: nic.foresight.has_left() && !nic.is_under_way(),
    }
}

/// Does what remains for a call that has done the thread's work. If it has found the end of a request of this process (`has_ended`), it
/// looks on for what comes right after it, if such requests came lately: that is carried out before the program looks for it in its
/// memory. From then on the program may make no call, so that requests are left to calls no longer.
pub(crate) fn look_on(worked: Worked, has_ended: bool) {
    // To a child nothing comes.
    if is_child() || !has_ended && !worked.leaves {
        return;
    }
    if let Some(shared) = NIC.get() {
        finish(shared, worked, has_ended);
    }
}

fn finish(shared: &Mutex<Nic>, worked: Worked, has_ended: bool) {
    let looks_on = || {
        let mut nic = try_lock(shared)?;
        if has_ended && nic.foresees() {
            let under_way = nic.is_under_way();
            let now = nic.now();
            let patience = match under_way {
                // The call that finds its end may look on.
                true => {
                    nic.foresight.in_vain();
                    None
                }
                false => nic.foresight.completed(now),
            };
            if let Some(mut patience) = patience {
                let mut has_come = worked.served;
                let mut is_vain = !has_come;
                while is_vain && patience.lasts(nic.now()) {
                    let came = go_on(&mut nic, false);
                    has_come = came.requests;
                    is_vain = !came.messages;
                    drop(nic);
                    // Others have their turn. Who has it does the work.
                    nic = try_lock(shared)?;
                }
                if has_come {
                    nic.foresight.came_to_call();
                } else if is_vain {
                    nic.foresight.in_vain();
                }
            }
        }
        Some(nic)
    };
    // Without the lock, who has it settles that, or the thread that looks in: whoever polls must not wait for them.
    let Some(mut nic) = looks_on() else { return };
    if nic.give_back() {
        go_on(&mut nic, false);
    }
}

/// Makes the thread bring what comes from now on, since somebody may wait for it without polling.
pub(crate) fn expect() {
    let mut nic = nic();
    nic.leave_to_calls(false, false);
    go_on(&mut nic, false);
}

/// Tells what kinds of messages a pass over the links has taken.
#[derive(Clone, Copy)]
struct Came {
    /// Messages of any kind.
    messages: bool,
    /// Requests of others that fill no receive.
    requests: bool,
}

/// Does the thread's work for it, and tells it what is left. Returns what there was.
fn go_on(nic: &mut Nic, sockets: bool) -> Came {
    let (taken, asked) = (nic.taken, nic.asked);
    let were_late = nic.look_for_left();
    let due = nic.progress(sockets);
    if were_late && nic.asked != asked {
        // They have waited for a call that did not come.
        nic.foresight.is_mistaken();
        nic.give_back();
    }
    // Who sleeps does not know of a new link, or of a request that now waits for answers. If something has come meanwhile, it is to
    // look by itself: to bring that may give it more to know.
    let sleeps_well = !nic.has_news || !ASLEEP.load(Ordering::Acquire) || nic.fall_asleep();
    let goes_on = !set_out(nic) || !sleeps_well || due.is_some();
    if goes_on && ASLEEP.swap(false, Ordering::AcqRel) {
        ring(&nic.doorbell);
    }
    Came {
        messages: nic.taken != taken,
        requests: nic.asked != asked,
    }
}

/// Wakes a thread.
fn ring(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// Returns whether calls that look for completions have done the work lately.
fn is_polled() -> bool {
    let polled = Duration::from_nanos(POLLED.load(Ordering::Relaxed));
    polled > Duration::ZERO && epoch().elapsed().saturating_sub(polled) < LOOKS_IN
}

/// What the thread does.
fn run() {
    let Some(shared) = NIC.get() else { return };
    let doorbell = Arc::clone(&lock(shared).doorbell);
    let mut vain: u32 = 0;
    let mut company = sched_getaffinity(None).ok().map(Company::new);
    take_short_turns();
    loop {
        let mut nic = lock(shared);
        nic.wake_up();
        let (before, asked_before, bytes_before) = (nic.taken, nic.asked, nic.moved);
        let due = nic.progress(false);
        vain = if nic.taken == before {
            vain.saturating_add(1)
        } else {
            0
        };
        if nic.is_plain()
            && let Some(company) = &mut company
            && let Some(from) = nic.rang_on()
        {
            company.was_woken(from, nic.moved - bytes_before);
        }
        if nic.asked != asked_before && nic.is_plain() && abroad().is_none() {
            let now = nic.now();
            nic.foresight.came_to_thread(now);
        }
        let begun = set_out(&mut nic);
        let wait = due.map(|due| Duration::from_nanos(due.saturating_sub(nic.now())));
        if nic.leave_to_calls(is_polled(), vain >= VAIN_MAX) {
            ring(&nic.look_in);
        }
        if begun && nic.fall_asleep() {
            ASLEEP.store(true, Ordering::Release);
            drop(nic);
            sleep(&doorbell, wait);
            ASLEEP.store(false, Ordering::Release);
        }
    }
}

/// Sleeps until the bell rings, for so long at most.
fn sleep(doorbell: &OwnedFd, wait: Option<Duration>) {
    let wait = wait.map(|wait| Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(wait.subsec_nanos()),
    });
    // This waits to the nanosecond. Without an end it also waits if a neighbour has changed how the bell is read.
    let rung = poll(&mut [PollFd::new(doorbell, PollFlags::IN)], wait.as_ref());
    if rung.is_ok_and(|rung| rung > 0) {
        let _ = rustix::io::read(doorbell, &mut [0; 8]);
    }
}

/// What the thread does that waits for sockets, and looks in while calls do the work.
fn watch() {
    let Some(shared) = NIC.get() else { return };
    let poller = Arc::clone(&lock(shared).poller);
    let looks_in = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(LOOKS_IN.subsec_nanos()),
    };
    let mut vain: u32 = 0;
    take_short_turns();
    loop {
        let left = lock(shared).is_left_to_calls();
        let _ = poll(
            &mut [PollFd::new(&poller, PollFlags::IN)],
            left.then_some(&looks_in),
        );
        if vain >= VAIN_MAX && abroad().is_some() && is_polled() {
            std::thread::sleep(LOOKS_IN);
        }
        let mut nic = lock(shared);
        let _ = rustix::io::read(&nic.look_in, &mut [0; 8]);
        let is_forsaken = nic.is_left_to_calls() && !is_polled();
        let has_left = is_forsaken && nic.foresight.has_left();
        if is_forsaken {
            nic.leave_to_calls(false, false);
        }
        let came = go_on(&mut nic, true);
        if has_left && came.requests {
            // They have waited for a call that did not come.
            nic.foresight.is_mistaken();
        }
        settle(&mut nic);
        drop(nic);
        vain = match came.messages {
            true => 0,
            false => vain.saturating_add(1),
        };
        // A connection waits for a descriptor, and the listener says so without end.
        if lock(shared).spare.is_none() {
            std::thread::sleep(SHORT);
        }
    }
}

/// Makes the process tell its counts, and remove its files, when it ends.
#[allow(unsafe_code)]
fn at_exit() {
    extern "C" fn ends() {
        // The parent does so itself.
        if is_child() {
            return;
        }
        counts::report();
        trace::flush();
        if let Some(world) = WORLD.get() {
            world.leave();
        }
    }
    // SAFETY: the function takes and returns nothing, and does not unwind.
    unsafe { libc::atexit(ends) };
}

#[cfg(test)]
mod tests;
