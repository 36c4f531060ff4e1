//! The one form of settings: a structure with public fields and a default, and a method for each field that returns the
//! settings with another value of it. The structure is `#[non_exhaustive]`: the methods are the only way to begin with
//! other values than the defaults, and a new setting breaks no program.
//!
//! Relies on nothing. Used by the settings of fabrics, of the manager and of objects that have more than two options.

/// Gives a settings structure a method for each listed field. The method has the field's name, and returns the
/// settings with another value of that field.
///
/// ```
/// #[derive(Default)]
/// struct Settings {
///     depth: usize,
///     name: Option<String>,
/// }
/// loco_fabric::setters!(Settings { depth: usize, name: Option<String> });
///
/// let settings = Settings::default().depth(3).name(Some("deep".to_owned()));
/// assert_eq!((settings.depth, settings.name.as_deref()), (3, Some("deep")));
/// ```
#[macro_export]
macro_rules! setters {
    ($settings:ty { $($field:ident: $value:ty),* $(,)? }) => {
        impl $settings {
            $(
                #[doc = concat!("Returns these settings with another `", stringify!($field), "`.")]
                #[must_use]
                pub fn $field(mut self, $field: $value) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}
