//! mowgli-cli

fn main() {}
