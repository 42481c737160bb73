//! The result of an expression as bytes.

use rquickjs::{Coerced, Ctx, Function, Value};

use crate::{
    error::EvaluationError, evaluator::MAX_RESULT_BYTES, frame::AnswerOutcome, value::ValueType,
};

/// Word of the function that describes values for a text whose length alone is over the limit.
const LONG_TEXT: &str = "long_text";

/// Reason for which a value is no result.
pub(super) enum ResultFailure {
    Refused(EvaluationError),
    /// The value itself threw: `toJSON`, a getter, a circle.
    Thrown(rquickjs::Error),
}

impl From<rquickjs::Error> for ResultFailure {
    fn from(error: rquickjs::Error) -> Self {
        Self::Thrown(error)
    }
}

/// Returns the type of a value and its content. `describe` is the function that the prelude made.
pub(super) fn result<'js>(
    ctx: &Ctx<'js>,
    describe: &Function<'js>,
    value: &Value<'js>,
) -> Result<(AnswerOutcome, String), ResultFailure> {
    let value_type = described_type(describe, value)?;
    let content = match value_type {
        ValueType::Null => String::new(),
        ValueType::Boolean | ValueType::Number => value.get::<Coerced<String>>()?.0,
        ValueType::Text => text_of(value)?,
        ValueType::Array | ValueType::Object => {
            let json = ctx.json_stringify(value.clone())?;
            let Some(json) = json else { return Err(no_value(ValueType::Undefined)) };
            described_type(describe, json.as_value())?;
            let json = text_of(json.as_value())?;
            // `toJSON` may have made another value of it.
            let opening = if value_type == ValueType::Array { '[' } else { '{' };
            if !json.starts_with(opening) {
                return Err(no_value(ValueType::OtherObject));
            }
            json
        }
        ValueType::Undefined
        | ValueType::Function
        | ValueType::Symbol
        | ValueType::BigInt
        | ValueType::Set
        | ValueType::Map
        | ValueType::OtherObject => return Err(no_value(value_type)),
    };
    if content.len() > MAX_RESULT_BYTES {
        return Err(too_large());
    }
    Ok((AnswerOutcome::Value { value_type, bytes: content.len() }, content))
}

/// Returns the type of a value, which the interpreter itself names, and refuses a text that is too long.
fn described_type<'js>(
    describe: &Function<'js>,
    value: &Value<'js>,
) -> Result<ValueType, ResultFailure> {
    // Without the objects of promises, which are left out, a promise looks like an object without a class.
    if value.is_promise() {
        return Ok(ValueType::OtherObject);
    }
    let word: String = describe.call((value.clone(), MAX_RESULT_BYTES))?;
    if word == LONG_TEXT {
        return Err(too_large());
    }
    let word = serde_json::Value::String(word);
    Ok(serde_json::from_value(word).unwrap_or(ValueType::OtherObject))
}

fn no_value(found: ValueType) -> ResultFailure {
    ResultFailure::Refused(EvaluationError::NoValue { found })
}

fn too_large() -> ResultFailure {
    ResultFailure::Refused(EvaluationError::ResultTooLarge { limit: MAX_RESULT_BYTES })
}

fn text_of(value: &Value<'_>) -> Result<String, ResultFailure> {
    match value.as_string().map(rquickjs::String::to_string) {
        Some(Ok(text)) => Ok(text),
        Some(Err(rquickjs::Error::Utf8(_))) => {
            Err(ResultFailure::Refused(EvaluationError::LoneSurrogate))
        }
        Some(Err(error)) => Err(error.into()),
        None => Err(no_value(ValueType::OtherObject)),
    }
}
