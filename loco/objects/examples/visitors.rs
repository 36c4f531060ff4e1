//! Nodes that count together, while others join them and leave or fail. All count in one variable, which is made anew in each view:
//! `loco run --hosts FILE --nodes-max 8 -- visitors`, then, for a visit of 20 rounds, `loco run --hosts FILE --join -- visitors 20`
use std::error::Error;
use std::thread::sleep;
use std::time::Duration;

use loco::ErrorKind;
use loco::fabric::Time;
use loco::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let mut rounds: u64 = std::env::args()
        .nth(1)
        .map_or(Ok(u64::MAX), |rounds| rounds.parse())?;
    let mut node = Startup::new().connect()?; // begins with the job, or joins it
    loop {
        match count(&node, &mut rounds) {
            Ok(()) => {}
            // A node that has failed stays a member of this view. The next view is without it.
            Err(error) if error.kind() == ErrorKind::PeerLost => println!("{}: {error}", node.node()),
            Err(error) => return Err(error.into()),
        }
        node = loop {
            match node.next_view(Time::NEVER) {
                Ok(Some(next)) => break next,
                Ok(None) => return Ok(()), // the others go on without this node: its manager is dropped
                Err(error) if error.kind() == ErrorKind::DeclaredLost => return Err(error.into()),
                // A member may go, or have other settings, before its view is made. There is another view then.
                Err(error) => println!("{}: {error}", node.node()),
            }
        };
    }
}

/// Counts with all members of the node's view, until they agree to go on with the next view. A node that has no rounds left announces that it
/// leaves, and stays until then.
fn count(node: &Manager, rounds: &mut u64) -> loco::Result<()> {
    let total = AtomicVar::<u64>::new(node, "total", node.nodes()[0])?;
    let mut news = Collective::<u64>::new(node, "news")?;
    node.wait_for_ready()?;
    println!(
        "{} counts in view {}",
        node.node(),
        node.fabric().mesh().view_number()
    );

    let thread = node.thread()?;
    let count = loop {
        match rounds.checked_sub(1) {
            Some(left) => {
                *rounds = left;
                total.fetch_add(&thread, 1)?;
            }
            None => drop(node.announce_leave(thread.now())?), // does not wait
        }
        let count = total.read(&thread)?; // who goes on may leave this view
        // All get the same answer, so all go on in the same round.
        let knows = u64::from(node.has_next_view());
        if news.all_reduce(&thread, knows, u64::max)? > 0 {
            break count;
        }
        sleep(Duration::from_millis(50));
    };
    println!("{}: the count was {count}", node.node());
    Ok(())
}
