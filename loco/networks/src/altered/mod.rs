//! An RDMA device that is altered for a test: the one of `loco nic` (`loco-nic`), with smaller limits, with faults that a healthy device
//! does not show, and with counts of what the program above did.
//!
//! What a program calls is passed on to the NIC, which this process has linked in; on the way it is counted, refused, kept back or
//! broken, as the test wants. The NIC carries out everything that reaches it, so that a test that looks at memory waits for it as it
//! would on a card. Devices of one process share its NIC. Each has an address of its own, by which the connection manager's calls
//! find it, and lives as long as the process.
//!
//! From the bottom: `nic` (the functions behind), `state` (a device, and what a test wants of it), `requests` (posting and polling),
//! `table` (the functions that a program calls), `device_memory`, `device` (the handle of tests), `null_loop`.

mod device;
mod device_memory;
mod nic;
mod null_loop;
mod requests;
mod state;
mod table;

pub use device::{AlteredDevice, Counts};
pub use null_loop::NullLoop;
pub use state::Limits;
