//! Nodes that count together, while others join them and leave. All count in one variable, which is made anew in each view:
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
            Ok(()) if rounds == 0 => return Ok(()), // the node leaves: its manager is dropped
            Ok(()) => {}
            // A node that has gone stays a member of this view. The next view is without it.
            Err(error) if error.kind() == ErrorKind::PeerLost => println!("{}: {error}", node.node()),
            Err(error) => return Err(error.into()),
        }
        node = loop {
            match node.next_view(Time::NEVER) {
                Ok(Some(next)) => break next,
                Ok(None) => return Ok(()), // the job is over
                Err(error) if error.kind() == ErrorKind::DeclaredLost => return Err(error.into()),
                // A newcomer may go, or have other settings, before its view is made. There is another view for the next one.
                Err(error) => println!("{}: {error}", node.node()),
            }
        };
    }
}

/// Counts with all members of the node's view, until they agree to go on with the next view, or this node has no rounds left.
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
    while *rounds > 0 {
        *rounds -= 1;
        total.fetch_add(&thread, 1)?;
        // All get the same answer, so all go on in the same round.
        let knows = u64::from(node.has_next_view());
        if news.all_reduce(&thread, knows, u64::max)? > 0 {
            break;
        }
        sleep(Duration::from_millis(50));
    }
    println!("{}: the count is {}", node.node(), total.read(&thread)?);
    Ok(())
}
