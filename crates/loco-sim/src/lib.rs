//! loco-sim
#![forbid(unsafe_code)]
