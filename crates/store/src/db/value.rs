//! Values of columns and parameters, and their conversion from and to Rust types.

use std::{borrow::Cow, str::Utf8Error};

/// A value of a column or a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ValueRef<'a> {
    Null,
    Integer(i64),
    Real(f64),
    /// Text in UTF-8, unless the disk is damaged.
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

/// The reason why a value cannot be converted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FromValueError {
    #[error("the value is of another type")]
    WrongType,
    #[error("{0} is out of range")]
    OutOfRange(i64),
    #[error("a blob of {found} bytes, not of {expected}")]
    WrongSize { expected: usize, found: usize },
    #[error(transparent)]
    NotUtf8(#[from] Utf8Error),
}

/// A type that can be read from a column.
pub(crate) trait FromValue: Sized {
    fn from_value(value: ValueRef<'_>) -> Result<Self, FromValueError>;
}

/// A type that can be bound to a parameter.
pub(crate) trait ToValue {
    fn to_value(&self) -> ValueRef<'_>;
}

impl<'a> ValueRef<'a> {
    /// Returns the value as an integer.
    pub(crate) fn as_i64(&self) -> Result<i64, FromValueError> {
        match *self {
            Self::Integer(number) => Ok(number),
            _ => Err(FromValueError::WrongType),
        }
    }

    /// Returns the value as text.
    pub(crate) fn as_str(&self) -> Result<&'a str, FromValueError> {
        match *self {
            Self::Text(text) => Ok(std::str::from_utf8(text)?),
            _ => Err(FromValueError::WrongType),
        }
    }

    /// Returns the bytes of a text or a blob.
    pub(crate) fn as_bytes(&self) -> Result<&'a [u8], FromValueError> {
        match *self {
            Self::Text(bytes) | Self::Blob(bytes) => Ok(bytes),
            Self::Null | Self::Integer(_) | Self::Real(_) => Err(FromValueError::WrongType),
        }
    }

    fn as_blob(&self) -> Result<&'a [u8], FromValueError> {
        match *self {
            Self::Blob(bytes) => Ok(bytes),
            _ => Err(FromValueError::WrongType),
        }
    }
}

impl FromValue for i64 {
    fn from_value(value: ValueRef<'_>) -> Result<Self, FromValueError> {
        value.as_i64()
    }
}

impl FromValue for u32 {
    fn from_value(value: ValueRef<'_>) -> Result<Self, FromValueError> {
        let number = value.as_i64()?;
        Self::try_from(number).map_err(|_| FromValueError::OutOfRange(number))
    }
}

impl FromValue for bool {
    fn from_value(value: ValueRef<'_>) -> Result<Self, FromValueError> {
        Ok(value.as_i64()? != 0)
    }
}

impl FromValue for String {
    fn from_value(value: ValueRef<'_>) -> Result<Self, FromValueError> {
        value.as_str().map(str::to_owned)
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: ValueRef<'_>) -> Result<Self, FromValueError> {
        value.as_blob().map(<[u8]>::to_vec)
    }
}

impl<const N: usize> FromValue for [u8; N] {
    fn from_value(value: ValueRef<'_>) -> Result<Self, FromValueError> {
        let bytes = value.as_blob()?;
        let wrong_size = |_| FromValueError::WrongSize { expected: N, found: bytes.len() };
        bytes.try_into().map_err(wrong_size)
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: ValueRef<'_>) -> Result<Self, FromValueError> {
        match value {
            ValueRef::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl ToValue for i64 {
    fn to_value(&self) -> ValueRef<'_> {
        ValueRef::Integer(*self)
    }
}

impl ToValue for i32 {
    fn to_value(&self) -> ValueRef<'_> {
        ValueRef::Integer(i64::from(*self))
    }
}

impl ToValue for u32 {
    fn to_value(&self) -> ValueRef<'_> {
        ValueRef::Integer(i64::from(*self))
    }
}

impl ToValue for bool {
    fn to_value(&self) -> ValueRef<'_> {
        ValueRef::Integer(i64::from(*self))
    }
}

impl ToValue for str {
    fn to_value(&self) -> ValueRef<'_> {
        ValueRef::Text(self.as_bytes())
    }
}

impl ToValue for String {
    fn to_value(&self) -> ValueRef<'_> {
        ValueRef::Text(self.as_bytes())
    }
}

impl ToValue for Cow<'_, str> {
    fn to_value(&self) -> ValueRef<'_> {
        ValueRef::Text(self.as_bytes())
    }
}

impl ToValue for [u8] {
    fn to_value(&self) -> ValueRef<'_> {
        ValueRef::Blob(self)
    }
}

impl ToValue for Vec<u8> {
    fn to_value(&self) -> ValueRef<'_> {
        ValueRef::Blob(self)
    }
}

impl<const N: usize> ToValue for [u8; N] {
    fn to_value(&self) -> ValueRef<'_> {
        ValueRef::Blob(self)
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> ValueRef<'_> {
        self.as_ref().map_or(ValueRef::Null, ToValue::to_value)
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> ValueRef<'_> {
        (**self).to_value()
    }
}
