//! The source of expressions: pure functions over text.

pub(crate) mod expression;
pub(crate) mod reserved;
pub(crate) mod scanner;
pub(crate) mod text;
