//! Operations as libfabric gets them, copied so that they can be handed on later.

use std::ffi::c_void;
use std::ptr;

use loco_ofi::Class;
use loco_ofi::ffi::types::*;

use super::promises::Shape;

/// The functions of the real provider by which operations are posted.
#[derive(Clone, Copy)]
pub(super) struct Real {
    pub(super) ep: *mut FidEp,
    pub(super) rma: *const OpsRma,
    pub(super) atomic: *const OpsAtomic,
}

/// Words of this node's memory, and the descriptor of the memory.
#[derive(Clone, Copy)]
pub(super) struct Words {
    ioc: Ioc,
    desc: *mut c_void,
}

impl Words {
    /// Returns the words of a vector of one element, or `None` if it has none.
    ///
    /// # Safety
    /// The pointers are those of a call of libfabric.
    pub(super) unsafe fn of(ioc: *const Ioc, desc: *mut *mut c_void, count: usize) -> Option<Words> {
        assert!(count <= 1, "a message with several pieces of local memory");
        // SAFETY: a vector of `count` elements; the descriptors have as many, or are left out.
        (count == 1).then(|| unsafe {
            Words {
                ioc: *ioc,
                desc: if desc.is_null() { ptr::null_mut() } else { *desc },
            }
        })
    }
}

/// The function that an operation was posted by, with the operands that only this one has.
enum Call {
    Write,
    Read,
    AtomicWrite(Element),
    /// The place of the results.
    AtomicRead(Element, Words),
    /// The values to compare with, and the place of the results.
    AtomicCompare(Element, Words, Words),
}

/// The elements of an atomic operation.
#[derive(Clone, Copy)]
struct Element {
    datatype: u32,
    op: u32,
}

impl Element {
    fn bytes(self) -> usize {
        match self.datatype {
            FI_UINT8 => 1,
            FI_UINT16 => 2,
            FI_UINT32 => 4,
            FI_UINT64 => 8,
            other => panic!("libfabric's datatype {other} is none of whole words"),
        }
    }
}

/// An operation.
pub(super) struct Message {
    call: Call,
    to: Addr,
    /// The data: of a read the place for them. The length is in bytes. An atomic read has none.
    local: Option<(*mut c_void, usize)>,
    desc: *mut c_void,
    /// The ranges of the peer's memory, with lengths in bytes.
    remote: Vec<RmaIov>,
    /// The data of a write, once they are the message's own.
    data: Vec<u64>,
}

impl Message {
    /// Copies a read or write.
    ///
    /// # Safety
    /// `message` is that of a call of libfabric.
    pub(super) unsafe fn of_rma(message: *const MsgRma, is_write: bool) -> Message {
        // SAFETY: a message that a program passes is whole, and so are its vectors.
        unsafe {
            let message = &*message;
            assert_eq!(message.iov_count, 1, "a message with one piece of local memory");
            let local = *message.msg_iov;
            Message {
                call: if is_write { Call::Write } else { Call::Read },
                to: message.addr,
                local: Some((local.iov_base, local.iov_len)),
                desc: if message.desc.is_null() {
                    ptr::null_mut()
                } else {
                    *message.desc
                },
                remote: std::slice::from_raw_parts(message.rma_iov, message.rma_iov_count).to_vec(),
                data: Vec::new(),
            }
        }
    }

    /// Copies an atomic operation.
    ///
    /// # Safety
    /// `message` is that of a call of libfabric.
    pub(super) unsafe fn of_atomic(
        message: *const MsgAtomic,
        compare: Option<Words>,
        result: Option<Words>,
    ) -> Message {
        // SAFETY: as in `of_rma`.
        let (message, remote, local) = unsafe {
            let message = &*message;
            let remote = std::slice::from_raw_parts(message.rma_iov, message.rma_iov_count);
            let local = Words::of(message.msg_iov, message.desc, message.iov_count);
            (message, remote, local)
        };
        let element = Element {
            datatype: message.datatype,
            op: message.op,
        };
        let range = |words: &RmaIoc| RmaIov {
            addr: words.addr,
            len: words.count * element.bytes(),
            key: words.key,
        };
        Message {
            call: match (compare, result) {
                (Some(compare), Some(result)) => Call::AtomicCompare(element, compare, result),
                (None, Some(result)) => Call::AtomicRead(element, result),
                _ => Call::AtomicWrite(element),
            },
            to: message.addr,
            local: local.map(|words| (words.ioc.addr, words.ioc.count * element.bytes())),
            desc: local.map_or(ptr::null_mut(), |words| words.desc),
            remote: remote.iter().map(range).collect(),
            data: Vec::new(),
        }
    }

    /// Returns the peer.
    pub(super) fn to(&self) -> Addr {
        self.to
    }

    /// Returns the properties of the operation on which orders depend.
    pub(super) fn shape(&self) -> Shape {
        let class = match self.call {
            Call::Write | Call::AtomicWrite(_) => Class::Write,
            Call::Read => Class::Read,
            Call::AtomicRead(element, _) if element.op == FI_ATOMIC_READ => Class::Read,
            Call::AtomicRead(..) | Call::AtomicCompare(..) => Class::Rmw,
        };
        Shape {
            class,
            atomic: !matches!(self.call, Call::Write | Call::Read),
            bytes: self.remote.iter().map(|range| range.len).sum(),
        }
    }

    /// Copies the data of a write into the message, so that its poster may change them.
    ///
    /// # Safety
    /// The data are mapped, and nobody writes to them now.
    pub(super) unsafe fn take_data(&mut self) {
        let Some((from, len)) = self.local else { return };
        // Words stay aligned.
        let phase = from.addr() % 8;
        self.data = vec![0; (phase + len).div_ceil(8)];
        // SAFETY: the room has `phase + len` bytes; the data are readable, by the caller's promise.
        unsafe {
            let to = self.data.as_mut_ptr().byte_add(phase).cast::<c_void>();
            ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), len);
            self.local = Some((to, len));
        }
        self.desc = ptr::null_mut();
    }

    /// Posts the operation to the real provider. Returns its status.
    ///
    /// # Safety
    /// The endpoint is open; the data, results and values to compare with are mapped until the operation ends; `context` is
    /// room for the provider as long.
    pub(super) unsafe fn post(&mut self, real: &Real, context: *mut c_void, flags: u64) -> isize {
        match self.call {
            Call::Write | Call::Read => {
                let (iov_base, iov_len) = self.local.unwrap_or((ptr::null_mut(), 0));
                let local = libc::iovec { iov_base, iov_len };
                let message = MsgRma {
                    msg_iov: &raw const local,
                    desc: &raw mut self.desc,
                    iov_count: 1,
                    addr: self.to,
                    rma_iov: self.remote.as_ptr(),
                    rma_iov_count: self.remote.len(),
                    context,
                    data: 0,
                };
                // SAFETY: the caller's promise; the message's vectors live during the call.
                unsafe {
                    match self.call {
                        Call::Write => ((*real.rma).writemsg)(real.ep, &raw const message, flags),
                        _ => ((*real.rma).readmsg)(real.ep, &raw const message, flags),
                    }
                }
            }
            Call::AtomicWrite(element) | Call::AtomicRead(element, _) | Call::AtomicCompare(element, ..) => {
                // SAFETY: the caller's promise.
                unsafe { self.post_atomic(real, element, context, flags) }
            }
        }
    }

    /// Posts an atomic operation.
    ///
    /// # Safety
    /// See [`post`](Message::post).
    unsafe fn post_atomic(
        &mut self,
        real: &Real,
        element: Element,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        let words = |range: &RmaIov| RmaIoc {
            addr: range.addr,
            count: range.len / element.bytes(),
            key: range.key,
        };
        let remote: Vec<RmaIoc> = self.remote.iter().map(words).collect();
        let local = self.local.map(|(addr, len)| Ioc {
            addr,
            count: len / element.bytes(),
        });
        let message = MsgAtomic {
            msg_iov: local.as_ref().map_or(ptr::null(), ptr::from_ref),
            desc: match local {
                Some(_) => &raw mut self.desc,
                None => ptr::null_mut(),
            },
            iov_count: usize::from(local.is_some()),
            addr: self.to,
            rma_iov: remote.as_ptr(),
            rma_iov_count: remote.len(),
            datatype: element.datatype,
            op: element.op,
            context,
            data: 0,
        };
        // SAFETY: the caller's promise; the vectors live during the call, as the provider copies them.
        unsafe {
            match &mut self.call {
                Call::AtomicRead(_, result) => ((*real.atomic).readwritemsg)(
                    real.ep,
                    &raw const message,
                    &raw mut result.ioc,
                    &raw mut result.desc,
                    1,
                    flags,
                ),
                Call::AtomicCompare(_, compare, result) => ((*real.atomic).compwritemsg)(
                    real.ep,
                    &raw const message,
                    &raw const compare.ioc,
                    &raw mut compare.desc,
                    1,
                    &raw mut result.ioc,
                    &raw mut result.desc,
                    1,
                    flags,
                ),
                _ => ((*real.atomic).writemsg)(real.ep, &raw const message, flags),
            }
        }
    }
}
