//! The functions of the expressions, and the messages that they throw. A message has no part of a value.

use std::fmt::Write as _;

use rquickjs::{Ctx, Exception, Function, Object, Value, context::EvalOptions};
use sha2::{Digest as _, Sha256};

use crate::frame::RequestFrame;

/// Every message of the functions. Only these, and messages made of words of the source, leave the child.
pub(super) const MESSAGES: [&str; 8] = [
    "json() takes text",
    "json(): the text is not JSON",
    "lines() takes text",
    "hash() takes text",
    "hash(): the text has half of a character (an unpaired surrogate)",
    "int() takes text or a number",
    "int(): the value is not a whole number",
    "contains() takes text or a number here",
];

/// The values of expressions are read-only, and so are these functions. Time and chance are no values: an expression
/// gives the same for the same values.
const PRELUDE: &str = r#"(function (hash, hasFailed) {
  "use strict";
  const { parse } = JSON;
  const { defineProperty } = Object;
  const isWhole = Number.isSafeInteger;
  const call = Function.prototype.call;
  const includesText = call.bind(String.prototype.includes);
  const includesItem = call.bind(Array.prototype.includes);
  const split = call.bind(String.prototype.split);
  const endsWith = call.bind(String.prototype.endsWith);
  const slice = call.bind(String.prototype.slice);
  const trim = call.bind(String.prototype.trim);
  const test = call.bind(RegExp.prototype.test);
  const number = Number;
  const newline = /\r?\n/;
  const digits = /^[-+]?[0-9]+$/;
  const fail = (why) => { throw new TypeError(why); };
  const define = (object, name, value) => defineProperty(object, name, { value });
  define(String.prototype, "contains", function contains(part) {
    if (typeof part !== "string" && typeof part !== "number") fail("contains() takes text or a number here");
    return includesText(this, part);
  });
  define(Array.prototype, "contains", function contains(item) { return includesItem(this, item); });
  const functions = {
    success: () => !hasFailed,
    failure: () => hasFailed,
    always: () => true,
    json(text) {
      if (typeof text !== "string") fail("json() takes text");
      try { return parse(text); } catch { fail("json(): the text is not JSON"); }
    },
    lines(text) {
      if (typeof text !== "string") fail("lines() takes text");
      if (endsWith(text, "\n")) text = slice(text, 0, -1);
      if (endsWith(text, "\r")) text = slice(text, 0, -1);
      return text === "" ? [] : split(text, newline);
    },
    hash(text) {
      if (typeof text !== "string") fail("hash() takes text");
      return hash(text);
    },
    int(value) {
      if (typeof value !== "string" && typeof value !== "number") fail("int() takes text or a number");
      const whole = typeof value === "number" ? value : test(digits, trim(value)) ? number(trim(value)) : NaN;
      return isWhole(whole) ? whole : fail("int(): the value is not a whole number");
    },
  };
  for (const name of Object.keys(functions)) define(globalThis, name, functions[name]);
  const { isArray } = Array;
  const { getPrototypeOf } = Object;
  const [objects, sets, maps] = [Object.prototype, Set.prototype, Map.prototype];
  const words = { string: "text", boolean: "boolean", number: "number", bigint: "big_int",
    undefined: "undefined", function: "function", symbol: "symbol" };
  const describe = (value, maximum) => {
    if (typeof value === "string" && value.length > maximum) return "long_text";
    if (value === null) return "null";
    if (typeof value !== "object") return words[typeof value];
    if (isArray(value)) return "array";
    const prototype = getPrototypeOf(value);
    if (prototype === null || prototype === objects) return "object";
    return prototype === sets ? "set" : prototype === maps ? "map" : "other_object";
  };
  delete Math.random;
  delete globalThis.queueMicrotask;
  delete globalThis.eval;
  return describe;
})"#;

/// Defines the functions. Returns the one that names the type of a value, which no expression can change.
pub(super) fn define<'js>(
    ctx: &Ctx<'js>,
    request: &RequestFrame,
) -> rquickjs::Result<Function<'js>> {
    let hash = Function::new(ctx.clone(), hash_text)?;
    let mut options = EvalOptions::default();
    // Not the name of the source, so that no place in this text is taken for one in the source.
    options.filename = Some("functions".to_owned());
    let prelude: Function<'_> = ctx.eval_with_options(PRELUDE, options)?;
    prelude.call((hash, request.has_failed))
}

#[expect(clippy::needless_pass_by_value, reason = "the interpreter passes a context by value")]
fn hash_text<'js>(ctx: Ctx<'js>, text: rquickjs::String<'js>) -> rquickjs::Result<String> {
    let text = text.to_string().map_err(|_| Exception::throw_type(&ctx, MESSAGES[4]))?;
    let digest = Sha256::digest(text.as_bytes());
    Ok(digest.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

/// Defines a value that the expression can read and not replace, inside objects for the first parts of its name.
pub(super) fn bind<'js>(
    ctx: &Ctx<'js>,
    path: &[String],
    value: Value<'js>,
) -> rquickjs::Result<()> {
    let Some((name, parents)) = path.split_last() else { return Ok(()) };
    let mut object = ctx.globals();
    for parent in parents {
        object = if object.contains_key(parent.as_str())? {
            object.get(parent.as_str())?
        } else {
            let inner = Object::new(ctx.clone())?;
            // Without members of its own: a name without a value is undefined, whatever it is called.
            inner.set_prototype(None)?;
            object.prop(parent.as_str(), property(inner.clone().into_value()))?;
            inner
        };
    }
    object.prop(name.as_str(), property(value))
}

fn property(value: Value<'_>) -> rquickjs::object::Property<Value<'_>> {
    rquickjs::object::Property::from(value).enumerable()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_that_the_functions_throw_may_leave_the_child() {
        let thrown: Vec<&str> =
            PRELUDE.split("fail(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(thrown.len(), 7);
        for message in thrown {
            assert!(MESSAGES.contains(&message), "{message}");
        }
    }
}
