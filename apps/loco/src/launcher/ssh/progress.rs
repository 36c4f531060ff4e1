//! The progress of a node on another host, as marks in its standard output report it.

use std::sync::atomic::{AtomicBool, Ordering};

/// The marks that were seen in a node's output.
pub(in crate::launcher) struct Progress {
    mark: String,
    began: AtomicBool,
    told_code: AtomicBool,
}

impl Progress {
    /// Begins with a mark that no program prints by itself.
    pub(in crate::launcher) fn new(mark: String) -> Progress {
        Progress {
            mark,
            began: AtomicBool::new(false),
            told_code: AtomicBool::new(false),
        }
    }

    pub(in crate::launcher) fn mark(&self) -> &str {
        &self.mark
    }

    /// Returns whether the program has begun, or was at least about to begin.
    pub(in crate::launcher) fn began(&self) -> bool {
        self.began.load(Ordering::Acquire)
    }

    /// Returns whether the far side itself has reported that the program ended with 255.
    pub(in crate::launcher) fn told_code(&self) -> bool {
        self.told_code.load(Ordering::Acquire)
    }

    /// Takes a mark out of a line of output. With the first mark, which says that the program begins, returns the
    /// process that holds the pipe of its input, if there is one.
    pub(in crate::launcher) fn take(&self, line: &mut Vec<u8>) -> Option<Option<i32>> {
        let mark = self.mark.as_bytes();
        if !self.began() {
            // The shell's start-up files may have printed something without a newline.
            let at = line.windows(mark.len()).position(|window| window == mark)?;
            let rest = line.split_off(at);
            let holder = std::str::from_utf8(&rest[mark.len()..]).ok();
            self.began.store(true, Ordering::Release);
            return Some(holder.and_then(|text| text.trim().parse().ok()));
        }
        // The program's last line may lack a newline.
        if let Some(before) = line.strip_suffix(b"\n").and_then(|line| line.strip_suffix(mark)) {
            line.truncate(before.len());
            self.told_code.store(true, Ordering::Release);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_out_of_the_output() {
        let progress = Progress::new("m4rk".to_owned());
        let mut line = b"welcome\n".to_vec();
        assert_eq!(
            (progress.take(&mut line), line.as_slice()),
            (None, &b"welcome\n"[..])
        );
        assert!(!progress.began());
        let mut line = b"prompt> m4rk 17\n".to_vec();
        assert_eq!(
            (progress.take(&mut line), line.as_slice()),
            (Some(Some(17)), &b"prompt> "[..])
        );
        assert!(progress.began());
        let mut line = b"m4rk in a program's output\n".to_vec();
        assert_eq!(progress.take(&mut line), None);
        assert!(line.starts_with(b"m4rk") && !progress.told_code());
        let mut line = b"the endm4rk\n".to_vec();
        assert_eq!(
            (progress.take(&mut line), line.as_slice()),
            (None, &b"the end"[..])
        );
        assert!(progress.told_code());
    }

    #[test]
    fn a_node_without_input_has_no_holder() {
        let progress = Progress::new("m4rk".to_owned());
        let mut line = b"m4rk \n".to_vec();
        assert_eq!((progress.take(&mut line), line.len()), (Some(None), 0));
    }
}
