//! The times for which the nodes of a job wait for one another.

use std::time::Duration;

use loco_fabric::{FabricError, Result};

/// The times for which a node waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// The time in which all nodes must be connected (default 30 s).
    pub connect: Duration,
    /// The time between signs of life on a silent connection (default 100 ms). In a job of more than 15 nodes, or with
    /// [room](crate::JobBuilder::nodes_max) for more, it is this times an eighth of that number, but at most a tenth of the silence that
    /// is allowed.
    pub heartbeat_interval: Duration,
    /// The silence after which a peer on another host is declared lost (default 1 s, at least twice the interval). Nothing but silence shows that a host is down or
    /// unplugged.
    pub silence: Duration,
    /// The silence after which a peer on this host is declared lost (default 10 s, at least twice the interval). The end of its process is seen at once, by the closed
    /// connection. Only a process that is stopped or starved is silent, and processes starve often on a machine with
    /// more work than cores, so the default is long.
    pub silence_same_host: Duration,
}

loco_fabric::setters!(Timeouts {
    connect: Duration,
    heartbeat_interval: Duration,
    silence: Duration,
    silence_same_host: Duration,
});

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(30),
            heartbeat_interval: Duration::from_millis(100),
            silence: Duration::from_secs(1),
            silence_same_host: Duration::from_secs(10),
        }
    }
}

impl Timeouts {
    pub(crate) fn check(&self) -> Result<()> {
        if self.connect.is_zero() || self.heartbeat_interval.is_zero() {
            return Err(FabricError::Config(
                "a timeout of zero leaves no time for anything".to_owned(),
            ));
        }
        for silence in [self.silence, self.silence_same_host] {
            if silence / 2 < self.heartbeat_interval {
                return Err(FabricError::Config(format!(
                    "a peer may be silent for {silence:?}, but sends a heartbeat only every {:?}: take at least twice that",
                    self.heartbeat_interval
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_taken_or_refused() {
        let times = [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_secs(1),
            Duration::MAX / 2,
            Duration::MAX,
        ];
        for connect in times {
            for interval in times {
                for silence in times {
                    let timeouts = Timeouts::default()
                        .connect(connect)
                        .heartbeat_interval(interval)
                        .silence(silence)
                        .silence_same_host(silence);
                    let fits = !connect.is_zero() && !interval.is_zero() && silence / 2 >= interval;
                    assert_eq!(timeouts.check().is_ok(), fits, "{timeouts:?}");
                }
            }
        }
    }
}
