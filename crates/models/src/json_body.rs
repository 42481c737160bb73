//! Bodies of requests: further fields, and an order that keeps a long prefix the same from request to request.

use serde_json::{Map, Value};

/// Merges `extra` into a body: objects field by field, any other value replaces the earlier one.
pub(crate) fn merge(body: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (name, value) in extra {
        match (body.get_mut(name), value) {
            (Some(Value::Object(body)), Value::Object(extra)) => merge(body, extra),
            _ => {
                body.insert(name.clone(), value.clone());
            }
        }
    }
}

/// Writes a body with its growing list at the end, so that each request begins with the bytes of the previous one.
pub(crate) fn write_body(body: &Map<String, Value>, list_name: &str, list: &[Value]) -> String {
    let mut text = Value::Object(body.clone()).to_string();
    text.pop();
    if !body.is_empty() {
        text.push(',');
    }
    let list = Value::Array(list.to_vec());
    text + &format!("{}:{list}}}", Value::from(list_name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn further_fields_are_merged_into_objects_and_replace_other_values() {
        let mut body = object(&json!({"a": {"b": 1, "c": [1]}, "d": 2}));
        merge(&mut body, &object(&json!({"a": {"c": [2], "e": 3}, "d": {"f": 4}, "g": null})));
        let expected = json!({"a": {"b": 1, "c": [2], "e": 3}, "d": {"f": 4}, "g": null});
        assert_eq!(Value::Object(body), expected);
    }

    #[test]
    fn the_list_is_the_last_field() {
        let body = object(&json!({"z": 1, "a": 2}));
        assert_eq!(write_body(&body, "m", &[json!(3)]), r#"{"a":2,"z":1,"m":[3]}"#);
        assert_eq!(write_body(&Map::new(), "m", &[]), r#"{"m":[]}"#);
    }
}
