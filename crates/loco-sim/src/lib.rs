//! loco-sim
