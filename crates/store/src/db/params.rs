//! Parameters of a statement: nothing, an array or slice of one type, a tuple, or the list of [`params`].

use super::{Result, ToValue, ValueRef};

/// The parameters of a statement, in the order `?1`, `?2`, …
pub(crate) trait Params {
    /// Calls `bind` with each value.
    fn bind_each(self, bind: impl FnMut(ValueRef<'_>) -> Result<()>) -> Result<()>;
}

/// Makes a list of parameters of different types.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::db::ToValue),*] as &[&dyn $crate::db::ToValue]
    };
}
pub(crate) use params;

impl Params for () {
    fn bind_each(self, _: impl FnMut(ValueRef<'_>) -> Result<()>) -> Result<()> {
        Ok(())
    }
}

impl<T: ToValue> Params for &[T] {
    fn bind_each(self, mut bind: impl FnMut(ValueRef<'_>) -> Result<()>) -> Result<()> {
        self.iter().try_for_each(|value| bind(value.to_value()))
    }
}

impl<T: ToValue, const N: usize> Params for [T; N] {
    fn bind_each(self, mut bind: impl FnMut(ValueRef<'_>) -> Result<()>) -> Result<()> {
        self.iter().try_for_each(|value| bind(value.to_value()))
    }
}

macro_rules! tuples {
    ($(($($field:tt $type:ident),*))*) => {$(
        impl<$($type: ToValue),*> Params for ($($type,)*) {
            fn bind_each(self, mut bind: impl FnMut(ValueRef<'_>) -> Result<()>) -> Result<()> {
                $(bind(self.$field.to_value())?;)*
                Ok(())
            }
        }
    )*};
}
tuples! {
    (0 A, 1 B)
    (0 A, 1 B, 2 C)
    (0 A, 1 B, 2 C, 3 D)
}
