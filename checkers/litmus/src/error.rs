//! The error of a job that runs litmus tests.

use loco_fabric::FabricError;

/// A failure of the job itself. Outcomes that a model forbids are results and not errors.
#[derive(thiserror::Error)]
pub enum Error {
    /// The fabric failed, or a peer was lost, while a test ran.
    #[error("test {test}: {source}")]
    Test {
        /// The test.
        test: String,
        /// The fabric's reason.
        source: FabricError,
    },
    /// The fabric failed outside tests.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The nodes of the job were started with different tests.
    #[error("{0} was started with other tests than node 0: give every node the same files and options")]
    OtherTests(loco_fabric::NodeId),
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The path.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A text is malformed. The message says where and why.
    #[error("{0}")]
    Input(String),
}

loco_fabric::debug_as_display!(Error);

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns a closure for `map_err` that names the file.
    pub fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.display().to_string();
        move |source| Error::File { path, source }
    }

    /// Returns a closure for `map_err` that names the test.
    pub fn in_test(test: &str) -> impl FnOnce(FabricError) -> Error {
        let test = test.to_owned();
        move |source| Error::Test { test, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_is_what_a_main_should_print() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        for error in [
            Error::File {
                path: "tests.json".to_owned(),
                source: missing,
            },
            Error::Input("line 3: no test".to_owned()),
            Error::OtherTests(loco_fabric::NodeId(2)),
        ] {
            assert_eq!(format!("{error:?}"), error.to_string());
        }
    }
}
