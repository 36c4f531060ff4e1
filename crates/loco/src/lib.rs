//! loco
