/* LOCO: composable objects over network memory. The C interface.
 *
 * A job is a number of processes, the nodes. Each node makes objects under the same names as the others do, waits until
 * they are ready, and uses them. The state of an object lies in the memory of the nodes, and a call reads and writes it
 * there, without the other nodes' processors taking part.
 *
 *     loco_open         this process becomes a node of its job
 *     loco_..._new      makes objects; every node that takes part makes each of them, in any order
 *     loco_wait_for_ready
 *     loco_thread_new   once in each thread that uses objects
 *     ...
 *     loco_close        waits for the others, so that nobody's memory goes while it is still used
 *
 * Start programs with `loco run -n 3 PROGRAM`, with mpirun, or under Slurm. docs/c.md has a page to begin with.
 *
 * Results. Functions that can fail return a `loco_status`: LOCO_OK (0); a positive number for an outcome that is no error
 * and that their documentation names; or a negative number for an error. `loco_last_error` then says what went wrong, at
 * which object and node, and what to do about it. A function writes its other results through pointers, which
 * are its last arguments. On an error it writes nothing there unless its documentation says otherwise.
 *
 * Handles. The pointers that `_new` functions give are opaque. Each is freed by its `_free` function, in any order: an
 * object keeps its node up until it is freed itself. Freeing NULL does nothing; any other function that is given NULL for a
 * handle returns LOCO_USAGE. A handle that was freed must not be used again, as with free().
 *
 * Threads. A `loco_thread` belongs to the thread that made it, and a call with it from another one returns
 * LOCO_WRONG_THREAD. Nodes and objects may be used by any threads at the same time, each with its own `loco_thread`. The
 * writer and the readers of a ring buffer and collective operations may move between threads, but two calls on one of them
 * at the same time are refused with LOCO_BUSY. Whoever frees a handle makes sure that no call with it is under way.
 *
 * Time. A call that waits gives up after the time of its thread (`loco_thread_set_timeout`), or else of the node (10 s
 * unless `loco_options` say otherwise), with LOCO_TIMEOUT; a node that is lost ends a wait for it at once with
 * LOCO_PEER_LOST. Each function says what a timeout leaves behind. `loco_close`, the unlocking functions, and threads that ask
 * for LOCO_FOREVER have no timeout: only the progress or the loss of other nodes ends these waits. A node that the others have
 * declared lost gets LOCO_DECLARED_LOST from every call that needs them; the functions do not list this error.
 *
 * Memory. The library never keeps a pointer to the caller's memory when a call has returned, not even after a timeout:
 * operations that are under way use a copy. During a call, nobody else may write what the call reads, or access what it writes.
 *
 * What not to do: fork() after `loco_open` and use the library in the child; cancel a thread (pthread_cancel) or longjmp
 * out of a signal handler while it is inside a call.
 *
 * The interface is the same in C++. It works over shared memory, RDMA verbs, TCP and libfabric. */

#ifndef LOCO_H
#define LOCO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; `loco_version` is that of the library. */
#define LOCO_VERSION "0.1.0"

/* ---- Results ---------------------------------------------------------------------------------------------------- */

/* What a call returns. */
typedef int loco_status;

enum {
    /* The call has done what it says. */
    LOCO_OK = 0,

    /* Outcomes that are no errors: `loco_last_error` does not change. */

    /* The call would have to wait: there is no message or word, no room, or the lock is held. */
    LOCO_AGAIN = 1,
    /* The store does not have the key. */
    LOCO_NOT_FOUND = 2,
    /* The store has the key already. */
    LOCO_DUPLICATE = 3,
    /* This node's part of the store has no room for another key. */
    LOCO_FULL = 4,
    /* The queue is closed: pushes are refused, and for a pop, no word is left. */
    LOCO_ENDED = 5,

    /* Errors. */

    /* A node that was needed is lost: `loco_last_lost_node` names it. */
    LOCO_PEER_LOST = -1,
    /* The call reached its deadline. */
    LOCO_TIMEOUT = -2,
    /* Nodes disagree about an object: its type, sizes or participants. Reported on both. */
    LOCO_MISMATCH = -3,
    /* The arguments do not fit: a NULL handle, a range outside a region, a lock that is not held. A mistake in the program. */
    LOCO_USAGE = -4,
    /* Registered memory, thread indices or another resource ran out. */
    LOCO_EXHAUSTED = -5,
    /* The fabric or device cannot do this. */
    LOCO_UNSUPPORTED = -6,
    /* The operating system or the device refused: `loco_last_os_error` is its number. */
    LOCO_SYSTEM = -7,
    /* A node refused a connection to the job or to an object. */
    LOCO_REFUSED = -8,
    /* The data that an object protects or holds may be incomplete: a node was lost, or is stuck, while it changed them. */
    LOCO_POISONED = -9,
    /* This node is shut down. */
    LOCO_CLOSED = -10,
    /* A `loco_thread`, or something that was begun with one, was used by another thread. Nothing was done. */
    LOCO_WRONG_THREAD = -11,
    /* Another thread is in the middle of a call on this handle. Nothing was done. */
    LOCO_BUSY = -12,
    /* The result is longer than the room for it: its length was given, and nothing was copied. */
    LOCO_BUFFER_TOO_SMALL = -13,
    /* A mistake in the library. What the call has done is unknown. */
    LOCO_PANIC = -14,
    /* The other nodes count this node as lost and go on without it. Whatever it does has no effect on them: end the process. */
    LOCO_DECLARED_LOST = -15,
    /* A snapshot is cut, altered, of another version or of keys and values that do not fit the store, or no snapshot at all. */
    LOCO_BAD_FILE = -16
};

/* Returns the text of the calling thread's last error, with its causes, in UTF-8; "" if there was none. The text is valid until
 * the thread's next error. A call that succeeds does not change it, as with errno. */
const char *loco_last_error(void);

/* Returns the node whose loss the calling thread's last error reports; -1 if it does not report one. */
int loco_last_lost_node(void);

/* Returns the operating system's number (errno) behind the calling thread's last error; 0 if there is none. */
int loco_last_os_error(void);

/* Returns the name of a status, such as "LOCO_TIMEOUT". Never NULL, and valid for ever. */
const char *loco_status_name(loco_status status);

/* Returns the version of the library, such as "0.1.0". Never NULL, and valid for ever. */
const char *loco_version(void);

/* ---- Nodes ------------------------------------------------------------------------------------------------------ */

/* Names a node of the job. Launchers count from 0; a hosts file may leave numbers out. */
typedef uint16_t loco_node_id;

/* No node has this id. */
#define LOCO_NO_NODE UINT16_MAX

/* A node of a job: this process. */
typedef struct loco_node loco_node;

/* Settings of a node. Begin with LOCO_OPTIONS_INIT, and change what is to differ. */
typedef struct loco_options {
    /* sizeof(loco_options). */
    size_t size;
    /* The time that calls wait, in nanoseconds; 0 is 10 seconds, LOCO_FOREVER is no limit. */
    uint64_t timeout_ns;
    /* The fabric: "shm", "verbs", "tcp", "ofi", "ofi:PROVIDER" or "auto". NULL takes that of the environment variable
     * LOCO_FABRIC, or else "auto". */
    const char *fabric;
    /* If not 0, a thread of the library polls for completions; if 0, each waiting thread does. */
    int polling_thread;
} loco_options;

#define LOCO_OPTIONS_INIT {sizeof(loco_options), 0, NULL, 0}

/* Makes this process a node of the job that it was started in, and waits until all nodes are there (30 s unless
 * LOCO_CONNECT_TIMEOUT_MS says otherwise). Once in a process. `options` may be NULL. If the environment variable LOCO_LOG is
 * set (for example to `info`), the library logs to standard error from here on.
 * Errors: LOCO_USAGE if the process was not started as a node of a job, or is one already, or for options that do not fit;
 * LOCO_TIMEOUT, LOCO_REFUSED, LOCO_PEER_LOST if nodes do not come; LOCO_SYSTEM, LOCO_UNSUPPORTED if the fabric cannot be brought up.
 * After a timeout the process is not a node, and cannot become one in this job. */
loco_status loco_open(const loco_options *options, loco_node **node);

/* Waits until every node of the job has called this, then frees the node. The wait has no timeout, as other nodes may still work;
 * the loss of a node ends it. After this call objects may only be freed. Handles that are never freed end with the process.
 * `node` is what `loco_open` gave; it is freed also on an error, except LOCO_USAGE for what `loco_among` gave.
 * Errors: LOCO_PEER_LOST if another node ended without calling this. */
loco_status loco_close(loco_node *node);

/* Frees a node without waiting for the others. The node leaves the job when the last of its objects and threads is freed, or the
 * process ends: other nodes that still need it get LOCO_PEER_LOST. Use this in programs that give up, and for views that
 * `loco_among` gave. */
loco_status loco_node_free(loco_node *node);

/* Gives a view of a node whose objects have only these `count` nodes as participants. Each of them makes the view, with the
 * same nodes. Objects that were made with the view stay usable when the view is freed with `loco_node_free`.
 * Errors: LOCO_USAGE for a node that is not part of the job. */
loco_status loco_among(loco_node *node, const loco_node_id *nodes, size_t count, loco_node **among);

/* Returns the id of this node; LOCO_NO_NODE for NULL. */
loco_node_id loco_self(loco_node *node);

/* Returns the number of nodes that take part, and writes the ids of the first `capacity` of them to `nodes`, in ascending
 * order. `nodes` may be NULL if only the number is wanted. Returns 0 for NULL. */
size_t loco_nodes(loco_node *node, loco_node_id *nodes, size_t capacity);

/* Waits until every object of this node is connected to all its participants, for the node's timeout at most.
 * Errors: LOCO_MISMATCH, naming both sides, if an object was made differently elsewhere; LOCO_TIMEOUT with who is missing;
 * LOCO_PEER_LOST.
 * After a timeout: connecting goes on; wait again. */
loco_status loco_wait_for_ready(loco_node *node);

/* ---- Threads ---------------------------------------------------------------------------------------------------- */

/* A thread's access to the network. Operations on a region ask the network for strong order: each takes effect at its node after
 * the puts and atomic operations that went through the same `loco_thread` to that node before. Those of different ones are not
 * ordered, and nothing orders the words of one operation. */
typedef struct loco_thread loco_thread;

/* A timeout that never passes. A lost node still ends the wait for it. */
#define LOCO_FOREVER UINT64_MAX
/* The timeout of the node. */
#define LOCO_DEFAULT_TIMEOUT (UINT64_MAX - 1)

/* Gives the calling thread access to the network. A thread makes its own `loco_thread`, and needs only one.
 * Errors: LOCO_EXHAUSTED if there are too many. */
loco_status loco_thread_new(loco_node *node, loco_thread **thread);

/* Frees a `loco_thread`. Operations on regions that were begun with it go on. Another thread may call this once the owner has ended.
 * Errors: LOCO_USAGE, freeing nothing, while the thread holds a lock, or has an operation of a store (`loco_store_pending`) that was
 * neither waited for nor freed. */
loco_status loco_thread_free(loco_thread *thread);

/* Sets how long each later call with this `loco_thread` may wait, in nanoseconds from the beginning of the call. 0 gives up at
 * once; LOCO_FOREVER and LOCO_DEFAULT_TIMEOUT are as above, and spare calls a look at the clock. */
loco_status loco_thread_set_timeout(loco_thread *thread, uint64_t timeout_ns);

/* ---- Fences ----------------------------------------------------------------------------------------------------- */

/* A put that is complete has been read from this node's memory; it need not be in the other node's memory yet. After a fence it
 * is: earlier operations that the fence covers are complete and placed before anything that follows.
 *
 * Errors of all fences: LOCO_PEER_LOST and others that an operation ended with; LOCO_TIMEOUT.
 * After a timeout nothing is ordered yet; execute the fence again. */

enum {
    /* No fence: the caller knows that no operation needs one. */
    LOCO_FENCE_NOTHING = 0,
    /* Operations of this thread. */
    LOCO_FENCE_THREAD = 1,
    /* Operations of all threads of this node that were posted before: the "global fence" of LOCO'25 5.3. */
    LOCO_FENCE_ALL_THREADS = 2
};

/* Executes a fence of this scope. */
loco_status loco_fence(loco_thread *thread, int scope);

/* Executes a fence for this thread's operations to one node. */
loco_status loco_fence_pair(loco_thread *thread, loco_node_id node);

/* Executes a fence for this thread's operations to `count` nodes and its own stores to memory: the "global fence" of LOCO'26
 * 3.4. LOCO'25 gives that name to LOCO_FENCE_ALL_THREADS. */
loco_status loco_fence_towards(loco_thread *thread, const loco_node_id *nodes, size_t count);

/* ---- Regions ---------------------------------------------------------------------------------------------------- */

/* The same number of bytes on every participant, zero at first, which all of them may access. Aligned words of 8 bytes do not
 * tear; overlapping accesses promise nothing more. Offsets are in bytes from the beginning of a node's part. */
typedef struct loco_region loco_region;

/* Makes this node's part of the region called `name`, of `len` bytes.
 * Errors of this and of every `_new` function: LOCO_USAGE for a name that is empty, contains `/` or `.`, or is taken, and if
 * this node does not take part; LOCO_EXHAUSTED; LOCO_CLOSED. If other nodes make it differently, `loco_wait_for_ready` reports
 * LOCO_MISMATCH. */
loco_status loco_region_new(loco_node *node, const char *name, size_t len, loco_region **region);

/* Frees this node's part. Its memory stays until no other node can access it. May wait, for the node's timeout at most, until
 * operations under way are over. */
loco_status loco_region_free(loco_region *region);

/* Returns the length of each node's part in bytes; 0 for NULL. */
size_t loco_region_len(loco_region *region);

/* Copies `len` bytes from this node's part. Any thread. Waits for nothing.
 * Errors: LOCO_USAGE for a range outside the region, as in every function that takes an offset. */
loco_status loco_region_read(loco_region *region, size_t offset, void *data, size_t len);

/* Copies `len` bytes into this node's part. Any thread. Waits for nothing. */
loco_status loco_region_write(loco_region *region, size_t offset, const void *data, size_t len);

/* Loads the word at `offset`, a multiple of 8, of this node's part, before every later access of this thread. */
loco_status loco_region_load(loco_region *region, size_t offset, uint64_t *value);

/* Stores the word at `offset`, a multiple of 8, of this node's part, after every earlier access of this thread. Not atomic
 * against other nodes' `fetch_add` and `compare_swap`: it may be undone by one that is under way. */
loco_status loco_region_store(loco_region *region, size_t offset, uint64_t value);

/* Comparisons of words, unsigned. */
enum {
    LOCO_EQUAL = 0,
    LOCO_NOT_EQUAL = 1,
    LOCO_LESS = 2,
    LOCO_LESS_EQUAL = 3,
    LOCO_GREATER = 4,
    LOCO_GREATER_EQUAL = 5
};

/* Waits until `word comparison value` is true for the word at `offset` of this node's part. Gives the word in `*seen`, unless
 * that is NULL.
 * Errors: LOCO_PEER_LOST if a participant is lost meanwhile; LOCO_TIMEOUT.
 * After a timeout nothing has changed; wait again. */
loco_status loco_region_wait_until(loco_region *region, loco_thread *thread, size_t offset, int comparison, uint64_t value,
                                   uint64_t *seen);

/* Puts `len` bytes into the part of `node` (which may be this one) and waits until the put is complete: the bytes are on their
 * way, and arrive after this thread's earlier puts to that node. They are in its memory after a fence, or a barrier.
 * Errors: LOCO_PEER_LOST; LOCO_USAGE also before the region is ready; LOCO_TIMEOUT.
 * After a timeout the bytes may arrive at any later time, or never. */
loco_status loco_region_put(loco_region *region, loco_thread *thread, loco_node_id node, size_t offset, const void *data,
                            size_t len);

/* Gets `len` bytes from the part of `node` and waits for them.
 * Errors: as for `loco_region_put`.
 * After a timeout `data` is as it was, and stays so. */
loco_status loco_region_get(loco_region *region, loco_thread *thread, loco_node_id node, size_t offset, void *data,
                            size_t len);

/* Gets the word at `offset`, a multiple of 8, of `node`. Where the network card carries out `fetch_add` and `compare_swap`, the
 * word may miss such an operation that has completed but was followed by no fence. A `fetch_add` of 0 misses none.
 * Errors: as for `loco_region_put`. */
loco_status loco_region_get_word(loco_region *region, loco_thread *thread, loco_node_id node, size_t offset,
                                 uint64_t *value);

/* Puts the word at `offset`, a multiple of 8, of `node`. As `loco_region_put` with 8 bytes. */
loco_status loco_region_put_word(loco_region *region, loco_thread *thread, loco_node_id node, size_t offset, uint64_t value);

/* Adds to the word at `offset`, a multiple of 8, of `node`, with wrap-around, in one step; gives what it was in `*old`,
 * unless that is NULL. Atomic against `fetch_add` and `compare_swap` of all nodes, and against nothing else; a `loco_atomic`
 * is easier to use.
 * Errors: as for `loco_region_put`; LOCO_UNSUPPORTED where the fabric has no atomics.
 * After a timeout it may take effect at any later time, once, or never. */
loco_status loco_region_fetch_add(loco_region *region, loco_thread *thread, loco_node_id node, size_t offset, uint64_t add,
                                  uint64_t *old);

/* Stores `desired` in the word at `offset`, a multiple of 8, of `node` if it is `expected`, in one step; gives what it was in
 * `*old`, unless that is NULL: it was stored if that is `expected`.
 * Errors, and after a timeout: as for `loco_region_fetch_add`. */
loco_status loco_region_compare_swap(loco_region *region, loco_thread *thread, loco_node_id node, size_t offset,
                                     uint64_t expected, uint64_t desired, uint64_t *old);

/* ---- Operations under way --------------------------------------------------------------------------------------- */

/* A put or get that was begun and not waited for, so that several are under way at a time. Belongs to the thread that began it:
 * others get LOCO_WRONG_THREAD. The data of a put was copied when it was begun; what a get brings is kept until it is freed. */
typedef struct loco_pending loco_pending;

/* Begins a put, as `loco_region_put`.
 * Errors: LOCO_TIMEOUT if no room came free in the queue, and nothing was begun; LOCO_PEER_LOST; LOCO_USAGE. */
loco_status loco_region_put_start(loco_region *region, loco_thread *thread, loco_node_id node, size_t offset,
                                  const void *data, size_t len, loco_pending **pending);

/* Begins a get, as `loco_region_get`. `loco_pending_read` copies what it has brought.
 * Errors: as for `loco_region_put_start`. */
loco_status loco_region_get_start(loco_region *region, loco_thread *thread, loco_node_id node, size_t offset, size_t len,
                                  loco_pending **pending);

/* Waits until the operation is complete. Later calls return the same status at once.
 * Errors: what the operation ended with, LOCO_PEER_LOST above all; LOCO_TIMEOUT.
 * After a timeout the operation is still under way; wait again, or free it. */
loco_status loco_pending_wait(loco_pending *pending);

/* Sets `*done` to 1 if the operation has ended, successfully or not, and otherwise to 0. Waits for nothing. */
loco_status loco_pending_test(loco_pending *pending, int *done);

/* Copies `len` bytes, from `offset` on, of the data that a get has brought.
 * Errors: LOCO_USAGE if it is a put, or was not waited for, or failed, or has no such bytes. */
loco_status loco_pending_read(loco_pending *pending, size_t offset, void *data, size_t len);

/* Frees the handle. An operation under way goes on, and its outcome is not reported.
 * Errors: LOCO_WRONG_THREAD, freeing nothing. */
loco_status loco_pending_free(loco_pending *pending);

/* ---- Atomic variables ------------------------------------------------------------------------------------------- */

/* A 64-bit word that lives on one node, its home, and is read and changed from all participants. All operations are
 * linearizable together: each takes effect once, at one moment during its call. They order nothing else: what this thread put
 * before is placed before only after a fence.
 *
 * Errors of all operations: LOCO_PEER_LOST if the home is lost; LOCO_USAGE before it is ready; LOCO_TIMEOUT.
 * After an error, and after a timeout, of an operation that changes the value it is unknown whether it took effect, and it
 * may take effect later, once. A read has no effect. */
typedef struct loco_atomic loco_atomic;

/* Makes this node's endpoint of the variable called `name`, which lives on `home` and is 0 at first.
 * Errors: see `loco_region_new`; LOCO_UNSUPPORTED where the fabric has no atomics. */
loco_status loco_atomic_new(loco_node *node, const char *name, loco_node_id home, loco_atomic **atomic);

/* Frees this node's endpoint. See `loco_region_free`. */
loco_status loco_atomic_free(loco_atomic *atomic);

/* Reads the value. */
loco_status loco_atomic_read(loco_atomic *atomic, loco_thread *thread, uint64_t *value);

/* Sets the value. May take several rounds where others write too. */
loco_status loco_atomic_write(loco_atomic *atomic, loco_thread *thread, uint64_t value);

/* Sets the value and gives what it was in `*old`, unless that is NULL. */
loco_status loco_atomic_swap(loco_atomic *atomic, loco_thread *thread, uint64_t value, uint64_t *old);

/* Adds with wrap-around and gives what the value was in `*old`, unless that is NULL. */
loco_status loco_atomic_fetch_add(loco_atomic *atomic, loco_thread *thread, uint64_t add, uint64_t *old);

/* Sets the value to `desired` if it is `expected`, and gives what it was in `*old`, unless that is NULL: it was set if that is
 * `expected`. */
loco_status loco_atomic_compare_swap(loco_atomic *atomic, loco_thread *thread, uint64_t expected, uint64_t desired,
                                     uint64_t *old);

/* ---- Shared variables ------------------------------------------------------------------------------------------- */

/* A 64-bit word with a copy on every participant. A program reads and writes its own copy, and broadcasts it over the copies of
 * others. Broadcasts of one thread to one node arrive in order. Concurrent broadcasts of different threads overwrite one
 * another in no particular order. */
typedef struct loco_variable loco_variable;

/* Makes this node's endpoint of the variable called `name`. Its copy is 0 at first.
 * Errors: see `loco_region_new`. */
loco_status loco_variable_new(loco_node *node, const char *name, loco_variable **variable);

/* Frees this node's endpoint. See `loco_region_free`. */
loco_status loco_variable_free(loco_variable *variable);

/* Loads this node's copy. Any thread. Waits for nothing. */
loco_status loco_variable_read(loco_variable *variable, uint64_t *value);

/* Stores into this node's copy. Any thread. Waits for nothing. Other nodes get the value by a broadcast only. */
loco_status loco_variable_write(loco_variable *variable, uint64_t value);

/* Overwrites the copies of all other participants with this node's copy, and waits until the puts are complete. Each put reads
 * the copy while it is under way, so it may send a value later than that at the call, and a different one to each node. The
 * value is in the other nodes' memory after a fence, or a barrier.
 * Errors: LOCO_PEER_LOST; LOCO_USAGE before the variable is ready; LOCO_TIMEOUT.
 * After a timeout the copies of some nodes may have been overwritten, or may be later; broadcast again. */
loco_status loco_variable_broadcast(loco_variable *variable, loco_thread *thread);

/* Broadcasts as `loco_variable_broadcast` does, but to these `count` nodes only.
 * Errors, and after a timeout: as for `loco_variable_broadcast`. */
loco_status loco_variable_broadcast_to(loco_variable *variable, loco_thread *thread, const loco_node_id *nodes, size_t count);

/* Waits until `copy comparison value` is true for this node's copy. Gives the copy in `*seen`, unless that is NULL.
 * Errors, and after a timeout: as for `loco_region_wait_until`. */
loco_status loco_variable_wait_until(loco_variable *variable, loco_thread *thread, int comparison, uint64_t value,
                                     uint64_t *seen);

/* ---- Barriers --------------------------------------------------------------------------------------------------- */

/* A barrier: no thread leaves it before all have arrived. It may be used any number of times. */
typedef struct loco_barrier loco_barrier;

/* Makes this node's endpoint of a barrier among one thread of each participant, which may be another thread each time.
 * Errors: see `loco_region_new`. */
loco_status loco_barrier_new(loco_node *node, const char *name, loco_barrier **barrier);

/* Makes this node's endpoint of a barrier among `threads` threads of each participant.
 * Errors: see `loco_barrier_new`. */
loco_status loco_barrier_new_threads(loco_node *node, const char *name, size_t threads, loco_barrier **barrier);

/* Frees this node's endpoint. See `loco_region_free`. */
loco_status loco_barrier_free(loco_barrier *barrier);

/* Executes LOCO_FENCE_THREAD, arrives, and waits for everybody: what the calling threads did before the barrier is visible after
 * it on all nodes (the barrier of LOCO'26 4). Operations of other threads of a node need not be complete: these threads execute
 * LOCO_FENCE_THREAD before they tell a caller about them, or the caller uses `loco_barrier_wait_fencing_all_threads`.
 * Errors: LOCO_PEER_LOST for a node that has not arrived; LOCO_TIMEOUT; those of the fence.
 * After a timeout this thread may have arrived already, and counts as arrived once: its next call goes on with the same round.
 * After LOCO_PEER_LOST the barrier is of no more use: those left make another among themselves (`loco_among`). */
loco_status loco_barrier_wait(loco_barrier *barrier, loco_thread *thread);

/* Waits as `loco_barrier_wait` does, with LOCO_FENCE_ALL_THREADS: operations that any thread of this node posted before are
 * complete, too (the barrier of LOCO'25 5.4).
 * Errors, and after a timeout: as for `loco_barrier_wait`. */
loco_status loco_barrier_wait_fencing_all_threads(loco_barrier *barrier, loco_thread *thread);

/* Waits as `loco_barrier_wait` does, but executes no fence, like MPI_Barrier: earlier operations need not be complete or visible.
 * Errors, and after a timeout: as for `loco_barrier_wait`. */
loco_status loco_barrier_wait_unfenced(loco_barrier *barrier, loco_thread *thread);

/* ---- Collective operations -------------------------------------------------------------------------------------- */

/* Operations on a word of each participant. Every participant calls the same operations in the same order: the n-th calls of all
 * participants belong together. A call is no barrier: it returns as soon as this node has what it asked for. Two calls on one
 * handle at the same time are refused with LOCO_BUSY.
 *
 * Errors of all operations: LOCO_PEER_LOST if something of a lost node is needed, now and in every later call; LOCO_USAGE for a
 * root that does not take part, if nodes are seen to call different operations, and before it is ready; LOCO_TIMEOUT.
 * After a timeout this node has taken part: its next call must be of the same operation with the same root, and goes on with the
 * same round and the value that was given first. */
typedef struct loco_collective loco_collective;

/* The operation that combines values, as unsigned numbers or as bits. */
enum {
    /* The sum, with wrap-around. */
    LOCO_SUM = 0,
    LOCO_MIN = 1,
    LOCO_MAX = 2,
    /* Bitwise. */
    LOCO_AND = 3,
    LOCO_OR = 4,
    LOCO_XOR = 5
};

/* Makes this node's endpoint of the operations called `name`.
 * Errors: see `loco_region_new`. */
loco_status loco_collective_new(loco_node *node, const char *name, loco_collective **collective);

/* Frees this node's endpoint. See `loco_region_free`. */
loco_status loco_collective_free(loco_collective *collective);

/* Gives every participant the value of `root`: `*value` is read there, and written on the others. */
loco_status loco_collective_broadcast(loco_collective *collective, loco_thread *thread, loco_node_id root, uint64_t *value);

/* Gives `root` the values of all participants, in ascending order of their nodes: `values` has room for `capacity` of them, as many
 * as there are participants at least. The others may pass NULL and 0. */
loco_status loco_collective_gather(loco_collective *collective, loco_thread *thread, loco_node_id root, uint64_t value,
                                   uint64_t *values, size_t capacity);

/* Gives every participant the values of all, as `loco_collective_gather` gives them to the root. */
loco_status loco_collective_all_gather(loco_collective *collective, loco_thread *thread, uint64_t value, uint64_t *values,
                                       size_t capacity);

/* Gives `root` the values of all participants combined by `operation` in `*result`. The others may pass NULL. */
loco_status loco_collective_reduce(loco_collective *collective, loco_thread *thread, loco_node_id root, uint64_t value,
                                   int operation, uint64_t *result);

/* Gives every participant the values of all combined by `operation` in `*result`. */
loco_status loco_collective_all_reduce(loco_collective *collective, loco_thread *thread, uint64_t value, int operation,
                                       uint64_t *result);

/* ---- Ring buffers ----------------------------------------------------------------------------------------------- */

/* A queue from one writer to readers on any nodes, each of which gets every message, whole and in order. */
typedef struct loco_ring loco_ring;
/* The writer of a ring buffer. */
typedef struct loco_ring_writer loco_ring_writer;
/* One reader of a ring buffer. */
typedef struct loco_ring_reader loco_ring_reader;

/* Makes this node's endpoint of the ring buffer called `name`, from `writer` to one reader on each other participant.
 * `capacity_bytes`, a multiple of 8, is room for every message that some reader has not read yet, with 8 bytes for each and
 * its length rounded up to a multiple of 8.
 * Errors: see `loco_region_new`; LOCO_USAGE for a capacity that does not fit. */
loco_status loco_ring_new(loco_node *node, const char *name, loco_node_id writer, size_t capacity_bytes, loco_ring **ring);

/* Makes this node's endpoint as `loco_ring_new` does, with `count` readers. A node stands in `readers` as often as it has
 * readers; it may be the writer's node.
 * Errors: see `loco_ring_new`. */
loco_status loco_ring_new_readers(loco_node *node, const char *name, loco_node_id writer, size_t capacity_bytes,
                                  const loco_node_id *readers, size_t count, loco_ring **ring);

/* Frees this node's endpoint. Its writer and readers may still be used: the last of them to be freed ends it. */
loco_status loco_ring_free(loco_ring *ring);

/* Returns the length of the longest message that fits, in bytes; 0 for NULL. */
size_t loco_ring_message_bytes_max(loco_ring *ring);

/* Gives the writer, on the writer's node, when the ring buffer is ready. There is one writer; once freed, it can be taken again.
 * Errors: LOCO_USAGE on another node, before the ring buffer is ready, or while the writer is taken. */
loco_status loco_ring_take_writer(loco_ring *ring, loco_ring_writer **writer);

/* Gives the next reader of this node, when the ring buffer is ready.
 * Errors: LOCO_USAGE before it is ready, or if this node has no more readers. */
loco_status loco_ring_take_reader(loco_ring *ring, loco_ring_reader **reader);

/* Gives the writer back: any thread may take it again. Messages that were submitted still arrive. */
loco_status loco_ring_writer_free(loco_ring_writer *writer);

/* Frees a reader. The writer still waits for that reader and blocks when the ring is full; to prevent that, call
 * `loco_ring_leave` first. */
loco_status loco_ring_reader_free(loco_ring_reader *reader);

/* Submits a message of `len` bytes to every reader, and waits until there is room for it. It reaches each reader's node after
 * every earlier put of this thread to that node; nobody waits until it is read.
 * Errors: LOCO_PEER_LOST if a reader's node is lost: nothing was submitted, and `loco_ring_exclude` goes on without it;
 * LOCO_USAGE for a message that never fits; LOCO_TIMEOUT if there is no room.
 * After a timeout nothing was submitted. */
loco_status loco_ring_submit(loco_ring_writer *writer, loco_thread *thread, const void *message, size_t len);

/* Submits as `loco_ring_submit` does if there is room now. Otherwise returns LOCO_AGAIN: some reader has not read enough. */
loco_status loco_ring_try_submit(loco_ring_writer *writer, loco_thread *thread, const void *message, size_t len);

/* Waits until every reader has read every message.
 * Errors: LOCO_PEER_LOST if a reader that is waited for is lost; LOCO_TIMEOUT.
 * After a timeout nothing has changed; wait again. */
loco_status loco_ring_wait_until_read(loco_ring_writer *writer, loco_thread *thread);

/* Goes on without the readers of `node`, which has been lost or is too slow. They must stop reading. */
loco_status loco_ring_exclude(loco_ring_writer *writer, loco_node_id node);

/* Waits for the next message and copies it to `message`, where there is room for `capacity` bytes; its length goes to `*len`.
 * Errors: LOCO_PEER_LOST if the writer is lost and all its messages are read; LOCO_TIMEOUT; LOCO_BUFFER_TOO_SMALL: `*len` is
 * what it takes, and the next call gives the same message.
 * After a timeout nothing was received. */
loco_status loco_ring_receive(loco_ring_reader *reader, loco_thread *thread, void *message, size_t capacity, size_t *len);

/* Receives as `loco_ring_receive` does if there is a message now. Otherwise returns LOCO_AGAIN, even if the writer is lost. */
loco_status loco_ring_try_receive(loco_ring_reader *reader, loco_thread *thread, void *message, size_t capacity, size_t *len);

/* Tells the writer not to wait for this reader any more. Afterwards the reader may only be freed. The loss of the writer is no
 * error, and there is no timeout: the writer would wait for this reader for ever. */
loco_status loco_ring_leave(loco_ring_reader *reader, loco_thread *thread);

/* ---- Queues ----------------------------------------------------------------------------------------------------- */

/* A bounded first-in-first-out queue of 64-bit words, which any thread of any participant pushes and pops. Each word that is pushed
 * is popped once. It is linearizable. A node that is lost inside a push or a pop loses one word at most, and words in cells of a
 * lost node are lost: whoever comes to such a cell gets LOCO_PEER_LOST. */
typedef struct loco_queue loco_queue;

/* Makes this node's endpoint of the queue called `name`, for up to `capacity` words. Its head and tail are on `home`, its cells on all
 * participants.
 * Errors: see `loco_region_new`; LOCO_USAGE for a capacity of 0; LOCO_UNSUPPORTED where the fabric has no atomics. */
loco_status loco_queue_new(loco_node *node, const char *name, loco_node_id home, size_t capacity, loco_queue **queue);

/* Frees this node's endpoint. See `loco_region_free`. */
loco_status loco_queue_free(loco_queue *queue);

/* Appends a word, waiting for room. Returns LOCO_ENDED if the queue is closed.
 * Errors: LOCO_PEER_LOST; LOCO_TIMEOUT; LOCO_USAGE before the queue is ready.
 * After a timeout the word is not in the queue. */
loco_status loco_queue_push(loco_queue *queue, loco_thread *thread, uint64_t value);

/* Appends a word as `loco_queue_push` does if there is room now. Otherwise returns LOCO_AGAIN. */
loco_status loco_queue_try_push(loco_queue *queue, loco_thread *thread, uint64_t value);

/* Takes the oldest word, waiting for one. Returns LOCO_ENDED if the queue is closed and holds none.
 * Errors: as for `loco_queue_push`.
 * After a timeout no word was taken. */
loco_status loco_queue_pop(loco_queue *queue, loco_thread *thread, uint64_t *value);

/* Takes the oldest word as `loco_queue_pop` does if there is one now. Otherwise returns LOCO_AGAIN. */
loco_status loco_queue_try_pop(loco_queue *queue, loco_thread *thread, uint64_t *value);

/* Closes the queue: pushes get LOCO_ENDED, and pops when the words that are left have been taken.
 * Errors: as for `loco_queue_push`.
 * After a timeout the queue may be closed or not; close it again. */
loco_status loco_queue_close(loco_queue *queue, loco_thread *thread);

/* ---- Locks ------------------------------------------------------------------------------------------------------ */

/* Mutual exclusion among the threads of all participants. */
typedef struct loco_lock loco_lock;

enum {
    /* First come, first served among the nodes. */
    LOCO_LOCK_TICKET = 0,
    /* Test-and-set: not fair, and cheap where no other node wants it. */
    LOCO_LOCK_TAS = 1
};

/* The policy when the node that holds the lock is lost. */
enum {
    /* Waiters get LOCO_POISONED, and so does every later call. */
    LOCO_ON_LOSS_POISON = 0,
    /* The next waiter gets the lock, and its `*recovered` becomes 1. */
    LOCO_ON_LOSS_RECOVER = 1
};

/* Makes this node's endpoint of the lock called `name`, whose words live on `home`. `kind`, `home` and `on_loss` must be the
 * same everywhere.
 * Errors: see `loco_region_new`; LOCO_UNSUPPORTED where the fabric has no atomics. */
loco_status loco_lock_new(loco_node *node, const char *name, int kind, loco_node_id home, int on_loss, loco_lock **lock);

/* Frees this node's endpoint. See `loco_region_free`.
 * Errors: LOCO_USAGE, freeing nothing, while a thread of this node holds the lock. */
loco_status loco_lock_free(loco_lock *lock);

/* Waits for the lock. `*recovered`, unless that is NULL, becomes 1 if a former holder was lost while it held the lock and nobody
 * has held it since: what the lock protects may be half done. Else 0.
 * Errors: LOCO_USAGE if this thread holds it already; LOCO_POISONED; LOCO_PEER_LOST if the home is lost; LOCO_TIMEOUT. Unless it
 * held the lock already, this thread does not hold it then.
 * After a timeout lock again. With a ticket lock the node keeps its place in the line until it is passed over. */
loco_status loco_lock_lock(loco_lock *lock, loco_thread *thread, int *recovered);

/* Takes the lock as `loco_lock_lock` does if it is free now. Otherwise returns LOCO_AGAIN. */
loco_status loco_lock_try_lock(loco_lock *lock, loco_thread *thread, int *recovered);

/* Releases the lock, which this thread holds, after a fence of `scope`. With LOCO_FENCE_THREAD, whoever gets the lock next, on
 * whichever node, sees what this thread put anywhere while it held it.
 * Errors: LOCO_USAGE, doing nothing, if this thread does not hold it; what the fence reports. The lock is released then all the
 * same. There is no timeout: a put that was given up could overwrite one of the next holder. */
loco_status loco_lock_unlock(loco_lock *lock, loco_thread *thread, int scope);

/* Releases the lock as `loco_lock_unlock` does, after a fence for this thread's operations to `node` only. */
loco_status loco_lock_unlock_pair(loco_lock *lock, loco_thread *thread, loco_node_id node);

/* ---- Key-value stores ------------------------------------------------------------------------------------------- */

/* A linearizable map over the memory of all participants, from keys to values of any bytes. Lookups take no lock. A value lives
 * on the node that inserted it, and with `copies` of 2 or more on the participants after it, too: keys and locks then outlive the
 * loss of `copies - 1` nodes, and "lost" below means that all that have the value or the lock are lost. */
typedef struct loco_store loco_store;

/* Settings of a store, which must be the same on all nodes. Begin with LOCO_STORE_OPTIONS_INIT; 0 is the default. */
typedef struct loco_store_options {
    /* sizeof(loco_store_options). */
    size_t size;
    /* Longest value in bytes (8). Each slot has room for it. */
    size_t value_bytes_max;
    /* Longest key in bytes (64). */
    size_t key_bytes_max;
    /* Bytes of the ring buffer in which each node tells the others of its inserts and deletes (65536). */
    size_t tracker_bytes;
    /* Nodes that have each value (1), at most the number of participants. */
    size_t copies;
    /* Further participants with room for the copies that are made again after a loss (0: lost copies are not made again). */
    size_t spare_homes;
    /* Values that each node has room for (65536). */
    uint32_t slots_per_node;
    /* Locks that writers of different keys share (64). */
    uint32_t locks;
    /* The most values of which a node makes new copies in a second after a loss (20000). */
    uint32_t copies_per_second;
} loco_store_options;

#define LOCO_STORE_OPTIONS_INIT {sizeof(loco_store_options), 0, 0, 0, 0, 0, 0, 0, 0}

/* Makes this node's endpoint of the store called `name`. `options` may be NULL.
 * Errors: see `loco_region_new`; LOCO_USAGE for settings that do not fit together. */
loco_status loco_store_new(loco_node *node, const char *name, const loco_store_options *options, loco_store **store);

/* Ends this node's part of the store, and frees it. Later inserts and deletes of other nodes fail with LOCO_TIMEOUT, so free the
 * store when all nodes are done with it. A `loco_store_pending` that is not freed keeps the store up. */
loco_status loco_store_free(loco_store *store);

/* Looks a key up: copies its value to `value`, where there is room for `capacity` bytes, and its length to `*len`.
 * LOCO_NOT_FOUND if there is none.
 * Errors: LOCO_PEER_LOST if the value's node is lost; LOCO_BUFFER_TOO_SMALL: `*len` is what it takes; LOCO_TIMEOUT;
 * LOCO_POISONED if a value stays half written, since its writer is lost or stuck.
 * After a timeout, and after LOCO_POISONED, nothing has changed; look again. */
loco_status loco_store_get(loco_store *store, loco_thread *thread, const void *key, size_t key_len, void *value,
                           size_t capacity, size_t *len);

/* Adds a key that is not there, with its value on this node. LOCO_DUPLICATE if it is there, LOCO_FULL if this node has no free
 * slot: nothing has changed then.
 * Errors: LOCO_USAGE for a key or value that is too long; LOCO_PEER_LOST if the key or its lock is on a lost node; LOCO_TIMEOUT
 * if a node does not acknowledge.
 * After an error, and after a timeout, the key is not there unless it was before; insert again. */
loco_status loco_store_insert(loco_store *store, loco_thread *thread, const void *key, size_t key_len, const void *value,
                              size_t value_len);

/* Changes the value of a key. LOCO_NOT_FOUND, changing nothing, if it is not there.
 * Errors: LOCO_USAGE for a value that is too long; LOCO_PEER_LOST if the value's node or the key's lock is lost; LOCO_TIMEOUT.
 * After a timeout nothing has changed; update again. After another error the value may be the old or the new one. */
loco_status loco_store_update(loco_store *store, loco_thread *thread, const void *key, size_t key_len, const void *value,
                              size_t value_len);

/* Removes a key. LOCO_NOT_FOUND if it is not there.
 * Errors: LOCO_PEER_LOST if the key's lock is lost; also if its value was on a lost node: nobody can tell whether it was still
 * there, but now it is not. LOCO_TIMEOUT if a node does not acknowledge.
 * After a timeout either nothing has changed, or the key is not there any more; delete again. */
loco_status loco_store_delete(loco_store *store, loco_thread *thread, const void *key, size_t key_len);

/* An operation of a store that was started and is completed by itself, so that hundreds of a thread are under way at a time. Belongs
 * to the thread that started it: others get LOCO_WRONG_THREAD. Its store stays up until it is freed, and its `loco_thread` is not
 * freed before it is waited for or freed.
 *
 * On networks it goes on while its thread is in `loco_store_pending_wait` or `loco_store_pending_test` of any of its operations, frees one of
 * them, tries for a lock (`loco_lock_try_lock`), or is in a call that waits for what other threads do, such as `loco_barrier_wait`,
 * `loco_lock_lock`, or an insert, update or delete. A call of this last kind ends the operations under way before it waits, until its own
 * deadline, and fails with LOCO_TIMEOUT then. Others may see what the call has done by then, such as its arrival at a barrier.
 *
 * Other calls do not move it on: `loco_fence...`, `loco_pending_wait` and the other calls that wait for nothing but their own puts and gets,
 * lookups (`loco_store_get`, unless it waits for a value of this node that is being written, or for a lock after a loss), and calls that
 * return at once, such as `loco_queue_try_pop`. A program that makes those again and again until another thread has done something also
 * tests its operations.
 *
 * An operation may hold its lock from its start on, and others wait for that lock. So the thread promises to come back soon to each
 * operation that it has started, and to wait for it or free it before the thread ends: nobody else can, and the lock would stay held
 * until this node is lost.
 *
 * Over shared memory, and where values have copies, the operation is over when it was started. */
typedef struct loco_store_pending loco_store_pending;

/* Starts an update of the value of a key, as `loco_store_update`; key and value are copied. Updates of one key by one thread take
 * effect in the order in which they were started, whichever is waited for first. Those of different keys are not ordered.
 * Errors: LOCO_USAGE for a value that is too long. `loco_store_pending_wait` returns all others. */
loco_status loco_store_update_start(loco_store *store, loco_thread *thread, const void *key, size_t key_len, const void *value,
                                    size_t value_len, loco_store_pending **pending);

/* Waits until the operation is over, and returns what the call in one piece would have: for an update, see `loco_store_update`. Later
 * calls return the same status at once. The time of the thread runs from the start of the operation, not from this call.
 * Errors: those of the call in one piece.
 * After a timeout the operation is over, as the call in one piece would be: for an update, nothing has changed (with copies, the value
 * may have); start another one. A value that is being written is written to its end, whatever the time. */
loco_status loco_store_pending_wait(loco_store_pending *pending);

/* Moves on what the thread has under way, and sets `*done` to 1 if this operation is over, successfully or not, and otherwise to 0.
 * Does not wait for other threads. The operation is over at its deadline, too. */
loco_status loco_store_pending_test(loco_store_pending *pending, int *done);

/* Frees the handle. An operation that has not begun to write is taken back, also if it holds its lock: nothing has changed. Otherwise it goes on to
 * its end, for which this waits, whatever the time of the thread, and its outcome is not reported. In either case its lock is released or given up.
 * Errors: LOCO_WRONG_THREAD, freeing nothing. */
loco_status loco_store_pending_free(loco_store_pending *pending);

/* Waits until all copies that went with the nodes known to be lost are made again. The loss of `copies - 1` nodes more then takes
 * no value with it, apart from values that are short of copies because too few homes are left.
 * Errors: LOCO_USAGE if the store has one copy of each value, or no spare homes; LOCO_REFUSED if a node makes no copies any more;
 * LOCO_DECLARED_LOST; LOCO_TIMEOUT.
 * After a timeout the copies are being made all the same; wait again. */
loco_status loco_store_wait_until_whole(loco_store *store, loco_thread *thread);

/* Writes every key and its value, all as they were at one moment of the call, to the file at `path`, while the nodes go on, and
 * the number of keys to `*keys`, unless that is NULL. Lookups go on meanwhile; writers wait while the values are read. A file that
 * was there stays until the new one is whole and on the disk, also if the process is killed.
 * Errors: LOCO_USAGE for a path that is not UTF-8; LOCO_SYSTEM if the file cannot be written; LOCO_PEER_LOST if values of a lost
 * node are missing; LOCO_POISONED; LOCO_TIMEOUT.
 * After an error, and after a timeout, nothing has changed, neither the store nor the file. */
loco_status loco_store_snapshot(loco_store *store, loco_thread *thread, const char *path, uint64_t *keys);

/* Puts part `part` of `parts` equal parts of the snapshot at `path` into this store, and the number of its keys into `*keys`,
 * unless that is NULL; 0 of 1 is all of it. A key that is there gets the value from the snapshot, and the values of new keys are on
 * this node. The store need not be the one that the snapshot is from: it may have other nodes and other settings.
 * Errors: LOCO_BAD_FILE; LOCO_USAGE for a part that there is not, or if this node has too few free slots: nothing has changed
 * then. Also LOCO_SYSTEM, and the errors of inserts and updates, after which some of the keys were restored.
 * After a timeout some of the keys were restored; restore again. */
loco_status loco_store_restore(loco_store *store, loco_thread *thread, const char *path, size_t part, size_t parts,
                               uint64_t *keys);

#ifdef __cplusplus
}
#endif

#endif
