//! Accounts, locks, and one transfer between two accounts. Relies on loco's objects; used by the runs and by
//! `loco bench transfer`.

use loco::fabric::Fabric;
use loco::fence::Scope;
use loco::{AtomicArray, Parent, Thread, TicketLock};

use crate::{Result, TransferError};

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
        })
    }

    /// Pays the deposit into the accounts of `share` of `shares`. Every account belongs to one share.
    ///
    /// # Errors
    /// Returns the errors of the accounts.
    pub fn fill(&self, thread: &Thread<F>, share: usize, shares: usize) -> Result<()> {
        for account in (share..self.config.accounts).step_by(shares.max(1)) {
            self.accounts.fetch_add(thread, account, self.config.deposit)?;
        }
        Ok(())
    }

    /// Moves `amount` between two accounts, if the first has as much. Takes the locks of both in ascending
    /// order.
    ///
    /// # Errors
    /// Returns the errors of the locks and accounts. After an error of an account's home, it is unknown which
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
            self.accounts.fetch_add(thread, from, -amount)?;
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

    /// Returns the sum of all accounts. It is exact when nobody transfers.
    ///
    /// # Errors
    /// Returns the errors of the accounts.
    pub fn total(&self, thread: &Thread<F>) -> Result<i64> {
        let mut total = 0_i64;
        for account in 0..self.config.accounts {
            total = total.wrapping_add(self.accounts.read(thread, account)?);
        }
        Ok(total)
    }

    /// Returns the settings.
    pub fn config(&self) -> &BankConfig {
        &self.config
    }
}
