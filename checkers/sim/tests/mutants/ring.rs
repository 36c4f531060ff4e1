//! The ring buffer of LOCO'26 Fig. 14: words in slots, a head that the writer puts after them, and a position
//! that the reader puts back.

use loco::{AckKey, Channel, Manager, Region, Thread};
use loco_sim::World;

use crate::words::{load, put, store, wait_until};
use crate::{Fabric, Site, found, passes, site, takes_preemptions};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// Counts the head on while a put of it may not have read it yet.
    NoWait,
    /// Puts the head before what it announces.
    HeadFirst,
    /// Frees a slot before copying it out.
    FreeFirst,
    /// Takes slots that are not acknowledged as free.
    NoRoomCheck,
}

const SLOTS: u64 = 2;

struct Ring {
    _channel: Channel<Fabric>,
    data: Region<Fabric>,
    head: Region<Fabric>,
    ack: Region<Fabric>,
}

impl Ring {
    fn new(manager: &Manager<Fabric>) -> Ring {
        let channel = Channel::builder(manager, "ring")
            .kind("test ring")
            .region("data", 8 * SLOTS as usize)
            .region("head", 8)
            .region("ack", 8)
            .join()
            .unwrap();
        let region = |name| channel.region(name).unwrap().clone();
        Ring {
            data: region("data"),
            head: region("head"),
            ack: region("ack"),
            _channel: channel,
        }
    }

    fn submit(&self, thread: &Thread<Fabric>, messages: u64, mistake: Mistake) {
        let mut in_flight = AckKey::done();
        for position in 0..messages {
            if mistake != Mistake::NoRoomCheck {
                wait_until(thread, || position - load(&self.ack, 0) < SLOTS);
            }
            let slot = (position % SLOTS) as usize;
            let record = || {
                store(&self.data, slot, position + 1);
                put(thread, (&self.data, slot), (&self.data, slot), 1).forget();
            };
            if mistake != Mistake::HeadFirst {
                record();
            }
            // Wait(d_x).
            if mistake != Mistake::NoWait {
                std::mem::replace(&mut in_flight, AckKey::done())
                    .wait(thread)
                    .unwrap();
            }
            store(&self.head, 0, position + 1);
            in_flight = put(thread, (&self.head, 0), (&self.head, 0), 1);
            if mistake == Mistake::HeadFirst {
                record();
            }
        }
    }

    fn receive(&self, thread: &Thread<Fabric>, messages: u64, mistake: Mistake) {
        for position in 0..messages {
            wait_until(thread, || load(&self.head, 0) > position);
            let free = || {
                store(&self.ack, 0, position + 1);
                put(thread, (&self.ack, 0), (&self.ack, 0), 0).forget();
            };
            if mistake == Mistake::FreeFirst {
                free();
            }
            let message = load(&self.data, (position % SLOTS) as usize);
            assert_eq!(message, position + 1, "messages arrive whole and in order");
            if mistake != Mistake::FreeFirst {
                free();
            }
        }
    }
}

fn world(messages: u64, mistake: Mistake) -> impl Fn(&mut World) + Sync {
    move |world| {
        let writer = world.node(site(Ring::new));
        world.thread(&writer, "writer", move |site: &Site<Ring>| {
            site.objects.submit(&site.thread(), messages, mistake);
        });
        let reader = world.node(site(Ring::new));
        world.thread(&reader, "reader", move |site: &Site<Ring>| {
            site.objects.receive(&site.thread(), messages, mistake);
        });
    }
}

#[test]
fn the_ring_passes() {
    passes("ring", world(3, Mistake::None));
}

#[test]
fn ring_without_wait_before_reusing_the_head_counter() {
    found("no wait", 3, world(2, Mistake::NoWait));
    takes_preemptions("no wait", 1, world(2, Mistake::NoWait));
}

#[test]
fn ring_whose_head_is_put_before_its_data() {
    found("head first", 1, world(1, Mistake::HeadFirst));
    takes_preemptions("head first", 1, world(1, Mistake::HeadFirst));
}

#[test]
fn reader_that_frees_a_slot_before_copying_it() {
    found("free first", 2, world(3, Mistake::FreeFirst));
}

#[test]
fn writer_that_does_not_look_for_room() {
    found("no room", 1, world(3, Mistake::NoRoomCheck));
}
