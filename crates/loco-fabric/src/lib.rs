//! loco-fabric
