//! Waits until a pipe is full that nobody reads.

use std::io::PipeReader;
use std::thread;
use std::time::Duration;

use rustix::io::ioctl_fionread;

/// Bytes that a pipe holds, but for the ends of pages into which no whole line fits.
const FULL: u64 = 65536 - 1024;

/// Waits until the pipe is full. No event says so: a reader hears of the first byte only, and a writer of room.
pub fn wait_until_full(reader: &PipeReader) {
    while ioctl_fionread(reader).unwrap() < FULL {
        thread::sleep(Duration::from_millis(1));
    }
}
