//! One node broadcasts messages, the others get every one of them in order. Start it: `loco run -n 3 -- cargo run --example news`
//!
//! The ring is shorter than what is sent, so the writer waits for the slowest reader now and then.
use loco::prelude::*;

const HEADLINES: [&str; 3] = ["rain tomorrow", "sun on Friday", "storms by the end of the week"];

fn main() -> loco::Result<()> {
    loco::run(|node| {
        let speaker = node.nodes()[0];
        let news = RingBuffer::new(node, "news", speaker, 64)?;
        node.wait_for_ready()?;

        let thread = node.thread()?;
        if node.node() == speaker {
            let mut writer = news.writer()?;
            for headline in HEADLINES {
                writer.submit(&thread, headline.as_bytes())?; // waits for room
            }
            return writer.wait_until_read(&thread);
        }
        let mut reader = news.reader()?;
        for number in 1..=HEADLINES.len() {
            let headline = String::from_utf8_lossy(&reader.receive(&thread)?).into_owned();
            println!("{}: {number}. {headline}", node.node());
        }
        Ok(())
    })
}
