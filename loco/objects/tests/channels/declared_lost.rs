//! A node that the others go on without learns it from each of its fences, also when nothing was outstanding.

use crate::common::{ALL, Cluster, until_lost};
use loco::fabric::{Control as _, NodeId};
use loco::fence::Scope;
use loco::{Barrier, Result, fence};

#[test]
fn an_empty_fence_of_a_node_that_was_declared_lost_says_so() {
    for cluster in ALL {
        let outcomes = cluster.run(3, |manager| {
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            bar.wait(&thread)?;
            // The others only wait from here on, since each of them may be gone before the other has come as far.
            if manager.node().0 != 2 {
                until_lost(&manager, NodeId(2));
                return Ok(Vec::new());
            }
            fence::thread(&thread)?;
            fence::all_threads(&thread)?;
            manager.fabric().mesh().fail();
            if !manager.fabric().mesh().declared_lost() {
                // A network tells the node when one of its operations fails.
                return Ok(Vec::new());
            }
            let nodes = [NodeId(0), NodeId(1), NodeId(2)];
            let empty: Vec<Result<()>> = vec![
                fence::pair(&thread, NodeId(0)),
                fence::pair(&thread, NodeId(2)),
                fence::thread(&thread),
                fence::all_threads(&thread),
                fence::towards(&thread, &nodes),
                Scope::Thread.fence(&thread),
            ];
            Ok(empty)
        });
        let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
        assert_eq!(
            outcomes.is_empty(),
            matches!(cluster, Cluster::Verbs | Cluster::Tcp | Cluster::Ofi),
            "{cluster:?}"
        );
        for fence in outcomes {
            assert!(fence.is_err_and(|error| error.is_declared_lost()), "{cluster:?}");
        }
    }
}
