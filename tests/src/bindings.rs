//! Values bound to names, and their use in requests and expected strings: `${k}`.

use std::collections::BTreeMap;

use serde_json::Value;

/// Names and the values bound to them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bindings(BTreeMap<String, Value>);

/// A reference to a name that is not bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nothing is bound to {0:?}")]
pub struct Unbound(pub String);

impl Bindings {
    /// Binds a value; if the name is bound already, the old value stays and is returned when it differs.
    pub fn bind(&mut self, name: &str, value: &Value) -> Result<(), Value> {
        match self.0.get(name) {
            Some(bound) if bound == value => Ok(()),
            Some(bound) => Err(bound.clone()),
            None => {
                self.0.insert(name.to_owned(), value.clone());
                Ok(())
            }
        }
    }

    /// Binds a value in place of whatever was bound.
    pub fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Puts values in place of the references in a string. A string that is one reference takes the value with its type.
    pub fn in_text(&self, text: &str) -> Result<Value, Unbound> {
        if let Some(name) = sole_reference(text) {
            return self.value(name).cloned();
        }
        Ok(Value::String(self.in_path(text)?))
    }

    /// Puts values in place of the references in a string, always as text.
    pub fn in_path(&self, text: &str) -> Result<String, Unbound> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, name, after)) = next_reference(rest) {
            out.push_str(before);
            match self.value(name)? {
                Value::String(value) => out.push_str(value),
                value => out.push_str(&value.to_string()),
            }
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Puts values in place of all references in all strings of a body.
    pub fn in_body(&self, body: &Value) -> Result<Value, Unbound> {
        Ok(match body {
            Value::String(text) => self.in_text(text)?,
            Value::Array(list) => {
                Value::Array(list.iter().map(|value| self.in_body(value)).collect::<Result<_, _>>()?)
            }
            Value::Object(map) => Value::Object(
                map.iter()
                    .map(|(key, value)| Ok((self.in_path(key)?, self.in_body(value)?)))
                    .collect::<Result<_, Unbound>>()?,
            ),
            value => value.clone(),
        })
    }

    fn value(&self, name: &str) -> Result<&Value, Unbound> {
        self.0.get(name).ok_or_else(|| Unbound(name.to_owned()))
    }
}

/// Whether a string has a reference in it.
pub fn has_reference(text: &str) -> bool {
    next_reference(text).is_some()
}

fn sole_reference(text: &str) -> Option<&str> {
    match next_reference(text)? {
        ("", name, "") => Some(name),
        _ => None,
    }
}

fn next_reference(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("${")?;
    let (name, after) = rest.split_once('}')?;
    Some((before, name, after))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_take_the_type_alone_and_text_inside() {
        let mut bindings = Bindings::default();
        bindings.bind("port", &json!(30080)).unwrap();
        bindings.bind("ip", &json!("10.96.0.9")).unwrap();
        let body = json!({"nodePort": "${port}", "text": "port ${port} of ${ip}.", "list": ["${ip}", 1], "plain": "a$b"});
        assert_eq!(
            bindings.in_body(&body).unwrap(),
            json!({"nodePort": 30080, "text": "port 30080 of 10.96.0.9.", "list": ["10.96.0.9", 1], "plain": "a$b"})
        );
        assert_eq!(bindings.in_path("/a/${ip}?x=${port}").unwrap(), "/a/10.96.0.9?x=30080");
        assert_eq!(bindings.in_text("${no}"), Err(Unbound("no".into())));
    }

    #[test]
    fn a_name_keeps_its_first_value() {
        let mut bindings = Bindings::default();
        bindings.bind("a", &json!("1")).unwrap();
        assert_eq!(bindings.bind("a", &json!("1")), Ok(()));
        assert_eq!(bindings.bind("a", &json!(1)), Err(json!("1")));
        assert_eq!(bindings.get("a"), Some(&json!("1")));
    }
}
