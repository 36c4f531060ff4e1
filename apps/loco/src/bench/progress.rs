//! The progress bar. The launcher draws it, as only the launcher has the terminal. The lowest node writes its
//! progress into a small file that both know.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use loco_app::Phase;

use crate::error::CliError;

/// The environment variable with the path of the file.
pub(super) const VARIABLE: &str = "LOCO_BENCH_PROGRESS";
/// The number that stands for all of the work.
const WHOLE: u64 = 1000;
/// The time that the bar has to go.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(100);

/// The bar, drawn until dropped.
pub(super) struct Bar {
    file: Arc<File>,
    drawn: ProgressBar,
    stop: Arc<AtomicBool>,
    painter: JoinHandle<()>,
}

impl Bar {
    pub(super) fn start() -> Result<Bar, CliError> {
        // The file is in memory and has no name, so nothing is left however this program ends.
        let memory = rustix::fs::memfd_create("loco-progress", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(CliError::os("making the file of the progress bar"))?;
        let file = Arc::new(File::from(memory));
        let stop = Arc::new(AtomicBool::new(false));
        let (source, stopped) = (Arc::clone(&file), Arc::clone(&stop));
        let drawn = ProgressBar::new(WHOLE);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent}%  {elapsed_precise}") {
            drawn.set_style(style);
        }
        let bar = drawn.clone();
        let painter = std::thread::Builder::new()
            .name("loco-progress".to_owned())
            .spawn(move || {
                bar.tick();
                while !stopped.load(Ordering::Relaxed) {
                    let mut done = [0; 8];
                    if source.read_exact_at(&mut done, 0).is_ok() {
                        bar.set_position(u64::from_ne_bytes(done));
                    }
                    std::thread::sleep(LOOK);
                }
                bar.finish_and_clear();
            })
            .map_err(CliError::os("starting the thread of the progress bar"))?;
        Ok(Bar {
            file,
            drawn,
            stop,
            painter,
        })
    }

    /// Returns the bar, for printing beside it.
    pub(super) fn drawn(&self) -> ProgressBar {
        self.drawn.clone()
    }

    /// Returns the path of the file that nodes write to.
    pub(super) fn path(&self) -> String {
        use std::os::fd::AsRawFd;
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        // Relaxed: the flag publishes no other data.
        self.stop.store(true, Ordering::Relaxed);
        // A terminal that takes no more must not hold up the end. A panic in the painter has been reported already.
        let begin = Instant::now();
        while !self.painter.is_finished() && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A node's end of the file. It counts how much of `total` is done. Without a file, as where no terminal shows the bar, the
/// lowest node says now and then how far it is.
pub(super) struct Progress {
    file: Option<File>,
    phase: Phase,
    total: u64,
    done: AtomicU64,
}

impl Progress {
    /// Opens the file, if the environment variable names one. The node says something only if it `leads`.
    pub(super) fn new(total: u64, leads: bool) -> Progress {
        let path = std::env::var_os(VARIABLE);
        let file = path.and_then(|path| File::options().write(true).open(path).ok());
        Progress {
            phase: Phase::new("loco: measuring", total, leads && file.is_none()),
            file,
            total: total.max(1),
            done: AtomicU64::new(0),
        }
    }

    /// Returns whether this node says how far it is, as no terminal shows the bar.
    pub(super) fn speaks(&self) -> bool {
        self.phase.speaks()
    }

    /// Reports that `more` are done.
    pub(super) fn add(&self, more: u64) {
        let Some(file) = &self.file else {
            return self.phase.add(more);
        };
        // Relaxed: the counter publishes no other data.
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        let share = u128::from(done.min(self.total)) * u128::from(WHOLE) / u128::from(self.total);
        let share = u64::try_from(share).unwrap_or(WHOLE);
        // The measurement goes on even if the bar cannot be updated.
        let _ = file.write_all_at(&share.to_ne_bytes(), 0);
    }
}
