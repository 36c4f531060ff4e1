//! Declarations of C structures and constants, for bindings to libraries that are opened at run time.
//!
//! No header is read when such a binding is compiled. The declarations therefore also list their names: a test
//! compares the lists with the real headers (`loco/conformance/src/layout.rs`). Used by the bindings of
//! `loco-verbs` and `loco-ofi`.

/// The part of the C structure that a declaration agrees with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything: the size must agree, too.
    Whole,
    /// The first fields: there may be more after the last.
    Fields,
    /// The last fields: there may be more before the first, so distances from the end count.
    Ends,
}

/// A declared structure: its C name, its size in bytes, and its fields' C names and offsets.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The C name: `struct ibv_wc`.
    pub name: &'static str,
    /// The part that agrees with C.
    pub extent: Extent,
    /// The size of the declaration.
    pub size: usize,
    /// The C name and offset of each field.
    pub fields: Vec<(&'static str, usize)>,
}

/// Declares `repr(C)` structures, with an [`Extent`] each, and the function `layouts`, which lists them for tests.
#[macro_export]
macro_rules! c_structs {
    ($(
        $(#[$meta:meta])*
        $extent:ident $name:ident = $c_name:literal {
            $($field:ident = $c_field:literal : $ty:ty,)*
        }
    )*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub struct $name {
                $(pub $field: $ty,)*
            }
        )*

        /// Returns the layouts of all structures.
        #[cfg(test)]
        pub(crate) fn layouts() -> Vec<$crate::bindings::Layout> {
            vec![$($crate::bindings::Layout {
                name: $c_name,
                extent: $crate::bindings::Extent::$extent,
                size: size_of::<$name>(),
                fields: vec![$(($c_field, std::mem::offset_of!($name, $field)),)*],
            },)*]
        }
    };
}

/// Declares constants, and the function `constants`, which lists their C names and values for tests.
#[macro_export]
macro_rules! c_constants {
    ($($(#[$meta:meta])* $name:ident : $ty:ty = $value:expr,)*) => {
        $($(#[$meta])* pub const $name: $ty = $value;)*

        /// Returns the C name and value of each constant.
        #[cfg(test)]
        #[allow(trivial_numeric_casts, clippy::cast_sign_loss)]
        pub(crate) fn constants() -> Vec<(&'static str, u64)> {
            vec![$((stringify!($name), $name as u64),)*]
        }
    };
}
