//! One node publishes a number, and the others print it. Start three nodes: `./run.sh`

#![forbid(unsafe_code)]

use {{crate}}::Bulletin;

fn main() -> loco::Result<()> {
    loco::run(|node| {
        let publisher = node.nodes()[0];
        let bulletin = Bulletin::new(node, "bulletin", publisher)?;
        node.wait_for_ready()?; // every node has made its endpoint

        let thread = node.thread()?;
        if node.node() == publisher {
            bulletin.publish(&thread, 42)?;
        } else {
            println!("{} reads {}", node.node(), bulletin.read(&thread)?);
        }
        Ok(())
    })
}
