//! Values of three words with a checksum, as in owned variables and mixed-size regions. A reader sees one
//! whole value or none.

use loco::fabric::{NodeId, Target};
use loco::{Channel, Manager, Region, Thread};
use loco_sim::World;

use crate::words::load;
use crate::{Fabric, Site, found, passes, site, takes_preemptions};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// Reads the words without looking at the checksum.
    NoChecksum,
    /// A version in front of the value instead of a checksum.
    VersionInFront,
    /// Computes the checksum of the first word only.
    FirstWordOnly,
    /// Takes a checksum that has not changed since the last read to mean that nothing has changed.
    StaleChecksum,
    /// Uses the sum of the words, which a mixture may have as well.
    Sum,
    /// Reads the words again once the checksum is found right.
    ReadAgain,
}

/// The two values that are written. The beginning of the second and the end of the first have the sum of the
/// first.
const VALUES: [[u64; 3]; 2] = [[1, 2, 3], [2, 1, 5]];

struct Sealed {
    _channel: Channel<Fabric>,
    data: Region<Fabric>,
}

impl Sealed {
    fn new(manager: &Manager<Fabric>) -> Sealed {
        let channel = Channel::builder(manager, "value")
            .kind("test value")
            .region("data", 32)
            .join()
            .unwrap();
        Sealed {
            data: channel.region("data").unwrap().clone(),
            _channel: channel,
        }
    }

    fn checksum(value: [u64; 3], mistake: Mistake) -> u64 {
        match mistake {
            Mistake::FirstWordOnly => value[0],
            Mistake::Sum => value.iter().sum(),
            // The checksum depends on each word and its place.
            _ => value
                .iter()
                .fold(7, |sum, &word| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        }
    }

    fn push(&self, thread: &Thread<Fabric>, version: u64, mistake: Mistake) {
        let value = VALUES[version as usize - 1];
        let sum = match mistake {
            Mistake::VersionInFront => version,
            _ => Sealed::checksum(value, mistake),
        };
        let words = match mistake {
            Mistake::VersionInFront => [sum, value[0], value[1], value[2]],
            _ => [value[0], value[1], value[2], sum],
        };
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let remote = self.data.remote(NodeId(1)).unwrap();
        let target = Target { remote, offset: 0 };
        thread.put_inline(&bytes, target).unwrap().forget();
    }

    fn word(&self, word: usize) -> u64 {
        load(&self.data, word)
    }

    fn value(&self, from: usize) -> [u64; 3] {
        [0, 1, 2].map(|i| self.word(from + i))
    }

    /// Returns a value if the words are whole. `last` is what the last read found.
    fn read(&self, mistake: Mistake, last: &mut Option<u64>) -> Option<[u64; 3]> {
        match mistake {
            Mistake::NoChecksum => Some(self.value(0)),
            Mistake::VersionInFront => {
                let before = self.word(0);
                let value = self.value(1);
                (before != 0 && before == self.word(0)).then_some(value)
            }
            _ => {
                let value = self.value(0);
                let sum = self.word(3);
                let trusted = mistake == Mistake::StaleChecksum && *last == Some(sum);
                if !trusted && (sum == 0 || sum != Sealed::checksum(value, mistake)) {
                    return None;
                }
                *last = Some(sum);
                Some(match mistake {
                    Mistake::ReadAgain => self.value(0),
                    _ => value,
                })
            }
        }
    }
}

fn world(mistake: Mistake) -> impl Fn(&mut World) + Sync {
    move |world| {
        let writer = world.node(site(Sealed::new));
        world.thread(&writer, "writer", move |site: &Site<Sealed>| {
            let thread = site.thread();
            site.objects.push(&thread, 1, mistake);
            site.objects.push(&thread, 2, mistake);
        });
        let reader = world.node(site(Sealed::new));
        world.thread(&reader, "reader", move |site: &Site<Sealed>| {
            let mut last = None;
            for _ in 0..2 {
                if let Some(value) = site.objects.read(mistake, &mut last) {
                    let whole = value == [0; 3] || VALUES.contains(&value);
                    assert!(whole, "{value:?} was never written");
                }
            }
        });
    }
}

#[test]
fn a_checksum_of_all_words_passes() {
    passes("checksum", world(Mistake::None));
}

#[test]
fn owned_variable_without_checksum() {
    found("no checksum", 1, world(Mistake::NoChecksum));
}

#[test]
fn owned_variable_with_a_version_in_front() {
    found("version in front", 1, world(Mistake::VersionInFront));
}

#[test]
fn owned_variable_whose_checksum_is_of_the_first_word() {
    // The words of one transfer arrive in any order: the checksum and the first word may come before the others.
    found("first word only", 1, world(Mistake::FirstWordOnly));
}

#[test]
fn mixed_size_write_that_trusts_a_stale_checksum() {
    found("stale checksum", 3, world(Mistake::StaleChecksum));
    takes_preemptions("stale checksum", 3, world(Mistake::StaleChecksum));
}

#[test]
fn mixed_size_write_with_a_sum_for_a_checksum() {
    found("sum", 1, world(Mistake::Sum));
}

#[test]
fn mixed_size_write_that_reads_again_what_it_has_checked() {
    found("read again", 2, world(Mistake::ReadAgain));
    takes_preemptions("read again", 2, world(Mistake::ReadAgain));
}
