//! Variables: values that one node or several write and the others read or change.

pub(crate) mod atomic_array;
pub(crate) mod atomic_var;
pub(crate) mod msw;
pub(crate) mod owned_var;
pub(crate) mod sealed;
pub(crate) mod shared_region;
pub(crate) mod shared_var;
pub(crate) mod sst;
pub(crate) mod value;
pub(crate) mod wide_owned_var;
