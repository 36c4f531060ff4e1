//! Compares explorations of random small worlds: with the reduction and without it, by one worker and by two, and at random.

#![allow(clippy::unwrap_used)]

mod direct;
mod links;
mod losses;
mod messages;
mod node;
mod programs;
mod started;
mod symmetry;
mod transfers;
mod waits;
