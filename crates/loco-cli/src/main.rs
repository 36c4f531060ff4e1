//! loco-cli

fn main() {}
