//! The state changes of queue pairs: which there are, and which attributes each must and may have (the kernel's table of them).

use crate::ffi::*;

/// Attributes that a change must have, and those that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    pub must: u32,
    pub may: u32,
}

/// Returns the attributes of a change, or `None` if there is no such change.
pub(super) fn attributes(kind: u32, from: u32, to: u32) -> Option<Attributes> {
    let path = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
    let is_ud = kind == IBV_QPT_UD;
    let is_rc = kind == IBV_QPT_RC;
    let of = |must, may| Some(Attributes { must, may });
    let by = |rc, uc, ud| {
        if is_rc {
            rc
        } else if is_ud {
            ud
        } else {
            uc
        }
    };
    let running = by(
        IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | path,
        IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | path,
        IBV_QP_CUR_STATE | IBV_QP_QKEY,
    );
    let first = IBV_QP_PKEY_INDEX | IBV_QP_PORT | if is_ud { IBV_QP_QKEY } else { IBV_QP_ACCESS_FLAGS };
    match (from, to) {
        (_, IBV_QPS_RESET | IBV_QPS_ERR) => of(0, 0),
        (IBV_QPS_RESET, IBV_QPS_INIT) => of(first, 0),
        (IBV_QPS_INIT, IBV_QPS_INIT) => of(0, first),
        (IBV_QPS_INIT, IBV_QPS_RTR) => {
            let connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
            let must = by(
                connected | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                connected,
                0,
            );
            let other = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
            of(must, by(other, other, IBV_QP_PKEY_INDEX | IBV_QP_QKEY))
        }
        (IBV_QPS_RTR, IBV_QPS_RTS) => {
            let reliable = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
            of(
                IBV_QP_SQ_PSN | if is_rc { reliable } else { 0 },
                running | IBV_QP_RATE_LIMIT,
            )
        }
        (IBV_QPS_RTS, IBV_QPS_RTS) => of(0, running | IBV_QP_RATE_LIMIT),
        (IBV_QPS_RTS | IBV_QPS_SQD, IBV_QPS_SQD) => {
            let drained = IBV_QP_EN_SQD_ASYNC_NOTIFY
                | IBV_QP_AV
                | IBV_QP_TIMEOUT
                | IBV_QP_RETRY_CNT
                | IBV_QP_RNR_RETRY
                | IBV_QP_MAX_QP_RD_ATOMIC
                | IBV_QP_MAX_DEST_RD_ATOMIC
                | IBV_QP_PKEY_INDEX;
            of(0, running | drained)
        }
        (IBV_QPS_SQD, IBV_QPS_RTS) => of(0, running),
        (IBV_QPS_SQE, IBV_QPS_RTS) if !is_rc => of(0, running),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_way_is_there_and_short_cuts_are_not() {
        let way = [IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS];
        for kind in [IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD] {
            for pair in way.windows(2) {
                assert!(attributes(kind, pair[0], pair[1]).is_some());
            }
            assert_eq!(attributes(kind, IBV_QPS_RESET, IBV_QPS_RTS), None);
            assert_eq!(attributes(kind, IBV_QPS_INIT, IBV_QPS_RTS), None);
            assert_eq!(attributes(kind, IBV_QPS_ERR, IBV_QPS_RTS), None);
            for from in way {
                assert_eq!(attributes(kind, from, IBV_QPS_ERR).map(|it| it.must), Some(0));
            }
        }
        let rtr = attributes(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR).map_or(0, |it| it.must);
        assert_ne!(rtr & IBV_QP_MIN_RNR_TIMER, 0);
    }
}
