//! Reading label selectors, with upstream's messages for what can not be read.

use std::collections::BTreeSet;

use super::lex::{Token, lex};
use super::{Operator, Requirement, Selector};
use crate::bad_value::go_quote;
use crate::errors::{FieldErrors, aggregate, invalid};
use crate::names;

const BINARY_OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// Why a label selector can not be read; its text is what upstream answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

fn refuse<T>(message: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError(message.into()))
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    position: usize,
}

pub(super) fn parse(text: &str) -> Result<Selector, ParseError> {
    let mut parser = Parser { tokens: lex(text), position: 0 };
    let mut requirements = parser.requirements()?;
    requirements.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(Selector { requirements })
}

impl<'a> Parser<'a> {
    fn peek_raw(&self) -> Token<'a> {
        self.tokens.get(self.position).copied().unwrap_or(Token::End)
    }

    fn peek(&self) -> Token<'a> {
        self.peek_raw().as_value()
    }

    fn next_raw(&mut self) -> Token<'a> {
        let token = self.peek_raw();
        self.position += 1;
        token
    }

    fn next(&mut self) -> Token<'a> {
        self.next_raw().as_value()
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, ParseError> {
        let mut found = Vec::new();
        loop {
            match self.peek() {
                Token::Identifier(_) | Token::Not => {}
                Token::End => return Ok(found),
                other => {
                    return refuse(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
            let requirement =
                self.requirement().map_err(|e| ParseError(format!("unable to parse requirement: {e}")))?;
            found.push(requirement);
            match self.next() {
                Token::End => return Ok(found),
                Token::Comma => match self.peek() {
                    Token::Identifier(_) | Token::Not => {}
                    other => {
                        return refuse(format!("found '{}', expected: identifier after ','", other.text()));
                    }
                },
                other => {
                    return refuse(format!("found '{}', expected: ',' or 'end of string'", other.text()));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, ParseError> {
        let (key, negated) = self.key()?;
        let ends_here = matches!(self.peek(), Token::End | Token::Comma);
        if negated {
            return build(key, &[], |_| Ok(Operator::DoesNotExist));
        }
        if ends_here {
            return build(key, &[], |_| Ok(Operator::Exists));
        }
        let operator = self.next_raw();
        let values = match operator {
            Token::In | Token::NotIn => self.values()?,
            Token::Equals | Token::DoubleEquals | Token::NotEquals | Token::Greater | Token::Less => {
                [self.exact_value()?.to_owned()].into()
            }
            other => {
                return refuse(format!("found '{}', expected: {BINARY_OPERATORS}", other.text()));
            }
        };
        let list: Vec<String> = values.iter().cloned().collect();
        build(key, &list, |list| match operator {
            Token::NotIn | Token::NotEquals => Ok(Operator::NotIn(values)),
            Token::Greater => bound(list).map(Operator::GreaterThan),
            Token::Less => bound(list).map(Operator::LessThan),
            _ => Ok(Operator::In(values)),
        })
    }

    fn key(&mut self) -> Result<(&'a str, bool), ParseError> {
        let mut token = self.next();
        let negated = token == Token::Not;
        if negated {
            token = self.next();
        }
        let Token::Identifier(key) = token else {
            return refuse(format!("found '{}', expected: identifier", token.text()));
        };
        let faults = names::qualified_name(key);
        if faults.is_empty() {
            Ok((key, negated))
        } else {
            refuse(format!("<nil>: Invalid value: {}: {}", go_quote(key), faults.join("; ")))
        }
    }

    fn values(&mut self) -> Result<BTreeSet<String>, ParseError> {
        let token = self.next();
        if token != Token::Open {
            return refuse(format!("found '{}' expected: '('", token.text()));
        }
        let first = self.peek();
        match first {
            Token::Identifier(_) | Token::Comma => {
                let values = self.value_list()?;
                if self.next() == Token::Close {
                    Ok(values)
                } else {
                    refuse(format!("found '{}', expected: ')'", first.text()))
                }
            }
            Token::Close => {
                self.next();
                Ok([String::new()].into())
            }
            other => refuse(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
    }

    /// The values between the parentheses; a missing one is the empty value.
    fn value_list(&mut self) -> Result<BTreeSet<String>, ParseError> {
        let mut values = BTreeSet::new();
        loop {
            match self.next() {
                Token::Identifier(value) => {
                    values.insert(value.to_owned());
                    match self.peek() {
                        Token::Comma => {}
                        Token::Close => return Ok(values),
                        other => {
                            return refuse(format!("found '{}', expected: ',' or ')'", other.text()));
                        }
                    }
                }
                Token::Comma => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek() {
                        Token::Close => {
                            values.insert(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            self.next();
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                other => {
                    return refuse(format!("found '{}', expected: ',', or identifier", other.text()));
                }
            }
        }
    }

    fn exact_value(&mut self) -> Result<&'a str, ParseError> {
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok("");
        }
        match self.next() {
            Token::Identifier(value) => Ok(value),
            other => refuse(format!("found '{}', expected: identifier", other.text())),
        }
    }
}

fn bound(values: &[String]) -> Result<i64, FieldErrors> {
    let value = values.first().map_or("", String::as_str);
    value.parse().map_err(|_| {
        vec![invalid("values[0]", value, "for 'Gt', 'Lt' operators, the value must be an integer")].into()
    })
}

/// Checks the values' shape and puts the requirement together.
fn build(
    key: &str,
    values: &[String],
    operator: impl FnOnce(&[String]) -> Result<Operator, FieldErrors>,
) -> Result<Requirement, ParseError> {
    let (operator, mut errors) = match operator(values) {
        Ok(operator) => (Some(operator), FieldErrors::new()),
        Err(errors) => (None, errors),
    };
    for (i, value) in values.iter().enumerate() {
        let faults = names::label_value(value);
        if !faults.is_empty() {
            errors.push(invalid(format!("values[{i}][{key}]"), value, faults.join("; ")));
        }
    }
    match operator {
        Some(operator) if errors.is_empty() => Ok(Requirement { key: key.to_owned(), operator }),
        _ => refuse(aggregate(&errors)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("a in", "unable to parse requirement: found '' expected: '('")]
    #[case("a in b", "unable to parse requirement: found 'b' expected: '('")]
    #[case("a in (b", "unable to parse requirement: found '', expected: ',' or ')'")]
    #[case("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'")]
    #[case("a in (b,=)", "unable to parse requirement: found '=', expected: ',', or identifier")]
    #[case("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier")]
    #[case("=a", "found '=', expected: !, identifier, or 'end of string'")]
    #[case("a,", "found '', expected: identifier after ','")]
    #[case("a,,b", "found ',', expected: identifier after ','")]
    #[case("a=b c", "found 'c', expected: ',' or 'end of string'")]
    #[case("!", "unable to parse requirement: found '', expected: identifier")]
    #[case("!a=b", "found '=', expected: ',' or 'end of string'")]
    #[case("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt")]
    #[case("a=(", "unable to parse requirement: found '(', expected: identifier")]
    #[case(
        "n>x",
        "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"
    )]
    fn messages(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(parse(text).unwrap_err().to_string(), expected);
    }

    #[test]
    fn malformed_keys_and_values_are_named() {
        let message = parse("a/b/c").unwrap_err().to_string();
        assert!(
            message.starts_with(
                "unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key"
            ),
            "{message}"
        );
        let message = parse("a=-").unwrap_err().to_string();
        assert!(
            message.starts_with(
                "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must"
            ),
            "{message}"
        );
    }

    #[test]
    fn requirements_are_sorted_by_key() {
        let keys: Vec<_> = parse("b=1,a=2,b=3").unwrap().requirements.into_iter().map(|r| r.key).collect();
        assert_eq!(keys, ["a", "b", "b"]);
    }
}
