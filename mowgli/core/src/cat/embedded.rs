//! The model files of `models/`, embedded so that they can be named and included without the repository.

/// Builds the pair of a file's name and text.
macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../models/", $name)))),*]
    };
}

/// Every file of `models/`: its name and its text.
pub const FILES: [(&str, &str); 33] = embedded![
    "aarch64-words.cat",
    "cos.cat",
    "fences.cat",
    "filters.cat",
    "rdma-axioms.cat",
    "rdma-sc+ooo-all.cat",
    "rdma-sc+ooo-rw.cat",
    "rdma-sc+pcie-relaxed.cat",
    "rdma-sc+unordered.cat",
    "rdma-sc.cat",
    "rdma-tables.cat",
    "rdma-tso+ooo-all.cat",
    "rdma-tso+ooo-rw.cat",
    "rdma-tso+pcie-relaxed.cat",
    "rdma-tso+unordered.cat",
    "rdma-tso-nopcie.cat",
    "rdma-tso.cat",
    "rdma-wait+ooo-all.cat",
    "rdma-wait+ooo-rw.cat",
    "rdma-wait+pcie-relaxed.cat",
    "rdma-wait+unordered.cat",
    "rdma-wait.cat",
    "sc-herd.cat",
    "sc.cat",
    "stdlib.cat",
    "tier-ooo-all.cat",
    "tier-ooo-rw.cat",
    "tier-pcie-relaxed.cat",
    "tier-unordered.cat",
    "tiers.cat",
    "tso.cat",
    "x86fences.cat",
    "x86tso.cat",
];

/// Returns the text of an embedded file. A folder `models/` before the name is left out.
pub fn find(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix("models/").unwrap_or(name);
    FILES.iter().find(|f| f.0 == name).map(|f| f.1)
}

/// The text of an included file, and the name under which diagnostics show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Included {
    /// The path or name. It identifies the file: a file that includes itself is found by its name.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Finds the files that a model file includes.
pub trait Includes {
    /// Reads the file that `includer` names as `path`.
    ///
    /// # Errors
    /// Returns the reason why there is no such text, in words for the message.
    fn read(&self, includer: &str, path: &str) -> Result<Included, String>;
}

/// Finds the embedded files and no others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Embedded;

impl Includes for Embedded {
    fn read(&self, _includer: &str, path: &str) -> Result<Included, String> {
        match find(path) {
            Some(text) => Ok(Included {
                name: path.strip_prefix("models/").unwrap_or(path).to_owned(),
                text: text.to_owned(),
            }),
            None => Err("there is no embedded file of this name".to_owned()),
        }
    }
}
