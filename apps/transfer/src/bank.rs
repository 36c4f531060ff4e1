//! Accounts, locks, and one transfer between two accounts. Relies on loco's objects; used by the runs and by
//! `loco bench transfer`.

use loco::fabric::{Fabric, NodeId};
use loco::fence::Scope;
use loco::{AtomicArray, Parent, Thread, TicketLock};
use loco_app::{Phase, Share};

use crate::{Result, TransferError};

/// The number of accounts that a thread fills or adds up between two reports of its progress.
const PIECE: usize = 1 << 16;

/// The settings of a bank, which must be equal on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankConfig {
    /// Number of accounts.
    pub accounts: usize,
    /// The number of locks that the accounts share. The paper's comparison has 341, as many as OpenMPI has
    /// windows.
    pub locks: usize,
    /// The money in each account at the start.
    pub deposit: i64,
}

impl Default for BankConfig {
    /// Returns a million accounts of 1000 each, with 341 locks.
    fn default() -> BankConfig {
        BankConfig {
            accounts: 1_000_000,
            locks: 341,
            deposit: 1000,
        }
    }
}

/// Accounts and their locks. Account `a` is guarded by lock `a` modulo the number of locks.
pub struct Bank<F: Fabric> {
    config: BankConfig,
    accounts: AtomicArray<i64, F>,
    locks: Vec<TicketLock<F>>,
    /// The number of nodes, over which the accounts are striped.
    nodes: usize,
    here: NodeId,
}

/// The result of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Transfer {
    /// The money was transferred.
    Done,
    /// The account has less than the amount. Nothing changed.
    Short,
}

impl<F: Fabric> Bank<F> {
    /// Makes this node's part of the bank called `name`. Every account is empty until [`fill`](Bank::fill).
    ///
    /// # Errors
    /// Returns `Usage` for less than two accounts or one lock, and the errors of the objects.
    pub fn new(parent: &impl Parent<F>, name: &str, config: BankConfig) -> Result<Bank<F>> {
        if config.accounts < 2 || config.locks == 0 {
            return Err(TransferError::Usage(format!(
                "{} accounts and {} locks: a transfer takes two accounts, and they take a lock at least",
                config.accounts, config.locks
            )));
        }
        let participants = parent.participants();
        let nodes = participants.nodes();
        let locks = (0..config.locks)
            .map(|i| TicketLock::new(parent, &format!("{name}-lock{i}"), nodes[i % nodes.len()]))
            .collect::<loco::Result<_>>()?;
        Ok(Bank {
            accounts: AtomicArray::new(parent, &format!("{name}-accounts"), config.accounts)?,
            locks,
            config,
            nodes: nodes.len(),
            here: parent.manager().node(),
        })
    }

    /// Returns the accounts on this node that are those of `share` of its threads.
    ///
    /// The lowest accounts are one on each node; the others follow in turn.
    fn own(&self, share: Share) -> impl Iterator<Item = usize> + use<F> {
        let first = (0..self.nodes).find(|&account| self.accounts.home(account) == self.here);
        let begin = first.unwrap_or(0) + share.local * self.nodes;
        (begin..self.config.accounts).step_by(self.nodes * share.local_of.max(1))
    }

    /// Returns the number of accounts on this node, at most.
    pub fn own_max(&self) -> u64 {
        self.config.accounts.div_ceil(self.nodes) as u64
    }

    /// Does `work` with each account on this node that is one of `share`'s, and notes in `phase` how many are done.
    fn each_own(&self, share: Share, phase: &Phase, mut work: impl FnMut(usize) -> Result<()>) -> Result<()> {
        let mut own = self.own(share).peekable();
        while own.peek().is_some() {
            let mut done = 0;
            for account in own.by_ref().take(PIECE) {
                work(account)?;
                done += 1;
            }
            phase.add(done);
        }
        Ok(())
    }

    /// Pays the deposit into the accounts on this node that are those of `share`. Every account is in one share of one
    /// node, whose memory has it.
    ///
    /// # Errors
    /// Returns the errors of the accounts.
    pub fn fill(&self, thread: &Thread<F>, share: Share, phase: &Phase) -> Result<()> {
        self.each_own(share, phase, |account| {
            self.accounts.fetch_add(thread, account, self.config.deposit)?;
            Ok(())
        })
    }

    /// Moves `amount` between two accounts, if the first has as much. Takes the locks of both in ascending
    /// order.
    ///
    /// # Errors
    /// Returns `Overdrawn` if the account has lost the money since it was looked at, which the locks exclude, and the errors of the
    /// locks and accounts. After an error of an account's home, it is unknown which
    /// steps were done.
    pub fn transfer(&self, thread: &Thread<F>, from: usize, to: usize, amount: i64) -> Result<Transfer> {
        let (one, other) = (from % self.config.locks, to % self.config.locks);
        // There are four places, each of which may be in no cache or in another processor's. Fetch them at
        // the same time.
        self.locks[one].prefetch();
        self.locks[other].prefetch();
        self.accounts.prefetch(from);
        self.accounts.prefetch(to);
        // Atomic operations are placed when they are done, so the release needs no fence.
        let first = self.locks[one.min(other)].lock(thread, Scope::Nothing)?;
        let second = match one == other {
            true => None,
            false => Some(self.locks[one.max(other)].lock(thread, Scope::Nothing)?),
        };
        let outcome = if self.accounts.read(thread, from)? < amount {
            Transfer::Short
        } else {
            let had = self.accounts.fetch_add(thread, from, -amount)?;
            if had < amount {
                return Err(TransferError::Overdrawn {
                    account: from,
                    money: had - amount,
                });
            }
            self.accounts.fetch_add(thread, to, amount)?;
            Transfer::Done
        };
        if let Some(second) = second {
            second.release()?;
        }
        first.release()?;
        Ok(outcome)
    }

    /// Adds to one account under its lock by reading and writing it, which only the lock makes atomic.
    ///
    /// # Errors
    /// Returns the errors of [`transfer`](Bank::transfer).
    pub fn pay_in(&self, thread: &Thread<F>, account: usize, amount: i64) -> Result<()> {
        let guard = self.locks[account % self.config.locks].lock(thread, Scope::Nothing)?;
        let before = self.accounts.read(thread, account)?;
        // If the lock excludes others, the account still has the value that was read. Otherwise the sum will
        // show it.
        self.accounts
            .compare_swap(thread, account, before, before.wrapping_add(amount))?;
        Ok(guard.release()?)
    }

    /// Returns the sum of the accounts on this node that are those of `share`. It is exact when nobody transfers. The sums
    /// of all shares of all nodes are all the money that there is.
    ///
    /// # Errors
    /// Returns the errors of the accounts.
    pub fn total(&self, thread: &Thread<F>, share: Share, phase: &Phase) -> Result<i64> {
        let mut total = 0_i64;
        self.each_own(share, phase, |account| {
            total = total.wrapping_add(self.accounts.read(thread, account)?);
            Ok(())
        })?;
        Ok(total)
    }

    /// Returns the settings.
    pub fn config(&self) -> &BankConfig {
        &self.config
    }
}
