//! The built-in clients, which are those of `litmus/clients`: the examples of LOCO'26 and ours.

macro_rules! clients {
    ($($name:literal)+) => {
        /// Name and text of every built-in client, by name.
        pub const CLIENTS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../clients/", $name, ".client"))),)+
        ];
    };
}

clients! {
    "ATOMIC-faa"
    "ATOMIC-put"
    "ATOMIC-put-fence"
    "ATOMIC-sb"
    "BARRIER-fence-node"
    "BARRIER-other-thread"
    "BARRIER-unfenced"
    "FENCE-thread"
    "KV-delete"
    "KV-insert"
    "LOCK-exclusion"
    "LOCK-publish"
    "LOCK-try"
    "LOCK-unfenced"
    "LOCO-12"
    "LOCO-13"
    "LOCO-23"
    "LOCO-3.1-gf"
    "LOCO-3.1-wait"
    "LOCO-3.2-decompose"
    "LOCO-3.4-own"
    "LOCO-3a"
    "LOCO-3b"
    "LOCO-3b-other"
    "LOCO-4-left"
    "LOCO-4-right"
    "LOCO-5"
    "LOCO-5.1-fail"
    "LOCO-6"
    "LOCO-8a"
    "LOCO-8b"
    "LOCO-8c"
    "LOCO-9a"
    "LOCO-9b"
    "LOCO-9c"
    "MSV-broadcast"
    "MSW-torn"
    "OWNED-back"
    "OWNED-pull"
    "QUEUE-fifo"
    "QUEUE-full"
    "RING-forward"
    "RING-own"
    "RING-own-2"
    "SST-rows"
    "SV-forward"
    "WORDS-forward"
}

/// Returns the text of a built-in client.
pub fn find(name: &str) -> Option<&'static str> {
    CLIENTS
        .iter()
        .find(|(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, text)| *text)
}
