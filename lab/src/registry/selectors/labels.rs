//! Label selectors: `a=b,c!=d,e in (f,g),h,!i,j>1`.
//!
//! The grammar and the texts of its errors are those of the API's `labelSelector` parameter
//! (<https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors>).

use service_api::errors::{self, BadValue, FieldError};
use service_api::names;

/// A conjunction of requirements on labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl LabelSelector {
    /// Parses a selector; an empty one selects everything. The error is the text of the answer.
    pub fn parse(text: &str) -> Result<Self, String> {
        Parser { items: lex(text), at: 0 }.parse().map(Self)
    }

    /// Does it let everything through?
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Are all requirements met by labels that `label` looks up?
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| requirement.holds(label(&requirement.key)))
    }
}

impl Requirement {
    fn new(key: String, operator: Operator, mut values: Vec<String>, form: Form) -> Result<Self, String> {
        values.sort_unstable();
        values.dedup();
        let mut faults: Vec<FieldError> = Vec::new();
        if form == Form::Set && values.is_empty() {
            let none: &[String] = &[];
            faults.push(errors::invalid(
                "values",
                BadValue::from(none),
                "for 'in', 'notin' operators, values set can't be empty",
            ));
        }
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            for (at, value) in values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err()) {
                let words = "for 'Gt', 'Lt' operators, the value must be an integer";
                faults.push(errors::invalid(format!("values[{at}]"), value.as_str(), words));
            }
        }
        for (at, value) in values.iter().enumerate() {
            let wrong = names::label_value(value);
            if !wrong.is_empty() {
                faults.push(errors::invalid(
                    format!("values[{at}][{key}]"),
                    value.as_str(),
                    wrong.join("; "),
                ));
            }
        }
        match faults.as_slice() {
            [] => Ok(Self { key, operator, values }),
            [one] => Err(one.to_string()),
            many => Err(format!("[{}]", many.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))),
        }
    }

    fn holds(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|v| v == value);
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
        let bound = number(self.values.first().map(String::as_str));
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => number(value).zip(bound).is_some_and(|(value, bound)| value > bound),
            Operator::LessThan => number(value).zip(bound).is_some_and(|(value, bound)| value < bound),
        }
    }
}

/// How an operator takes its values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    None,
    Exact,
    Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Identifier,
    Comma,
    Open,
    Close,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Greater,
    Less,
    End,
    Error,
}

fn symbol(text: &str) -> Option<Token> {
    Some(match text {
        ")" => Token::Close,
        "," => Token::Comma,
        "!" => Token::Not,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::Greater,
        "<" => Token::Less,
        "!=" => Token::NotEquals,
        "(" => Token::Open,
        _ => return None,
    })
}

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn lex(text: &str) -> Vec<(Token, String)> {
    let mut items = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let (token, length) = if is_special(first) {
            lex_symbol(rest)
        } else {
            let length = rest.find(|c| is_special(c) || is_space(c)).unwrap_or(rest.len());
            let token = match &rest[..length] {
                "in" => Token::In,
                "notin" => Token::NotIn,
                _ => Token::Identifier,
            };
            (token, length)
        };
        items.push((token, rest[..length].to_owned()));
        rest = rest[length..].trim_start_matches(is_space);
    }
    items.push((Token::End, String::new()));
    items
}

/// The longest symbol that `text` starts with.
fn lex_symbol(text: &str) -> (Token, usize) {
    let two = text.get(..2).and_then(symbol).map(|token| (token, 2));
    two.or_else(|| text.get(..1).and_then(symbol).map(|token| (token, 1))).unwrap_or((Token::Error, 1))
}

struct Parser {
    items: Vec<(Token, String)>,
    at: usize,
}

impl Parser {
    /// The next token; `in` and `notin` are operators only right after a key.
    fn peek(&self, as_operator: bool) -> (Token, &str) {
        let (token, text) = &self.items[self.at.min(self.items.len() - 1)];
        match token {
            Token::In | Token::NotIn if !as_operator => (Token::Identifier, text),
            token => (*token, text),
        }
    }

    fn next(&mut self, as_operator: bool) -> (Token, String) {
        let (token, text) = self.peek(as_operator);
        let out = (token, text.to_owned());
        self.at += 1;
        out
    }

    fn parse(mut self) -> Result<Vec<Requirement>, String> {
        let mut out = Vec::new();
        loop {
            match self.peek(false) {
                (Token::Identifier | Token::Not, _) => {}
                (Token::End, _) => return Ok(out),
                (_, text) => {
                    return Err(format!("found '{text}', expected: !, identifier, or 'end of string'"));
                }
            }
            out.push(self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?);
            match self.next(false) {
                (Token::End, _) => return Ok(out),
                (Token::Comma, _) => match self.peek(false) {
                    (Token::Identifier | Token::Not, _) => {}
                    (_, text) => return Err(format!("found '{text}', expected: identifier after ','")),
                },
                (_, text) => return Err(format!("found '{text}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (mut token, mut key) = self.next(false);
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next(false);
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let wrong = names::qualified_name(&key);
        if !wrong.is_empty() {
            return Err(errors::invalid("<nil>", key, wrong.join("; ")).to_string());
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new(), Form::None);
        }
        if matches!(self.peek(false).0, Token::End | Token::Comma) {
            return Requirement::new(key, Operator::Exists, Vec::new(), Form::None);
        }
        let (operator, form) = self.operator()?;
        let values = if form == Form::Set { self.set()? } else { vec![self.exact()?] };
        Requirement::new(key, operator, values, form)
    }

    fn operator(&mut self) -> Result<(Operator, Form), String> {
        Ok(match self.next(true) {
            (Token::In, _) => (Operator::In, Form::Set),
            (Token::NotIn, _) => (Operator::NotIn, Form::Set),
            (Token::Equals | Token::DoubleEquals, _) => (Operator::In, Form::Exact),
            (Token::NotEquals, _) => (Operator::NotIn, Form::Exact),
            (Token::Greater, _) => (Operator::GreaterThan, Form::Exact),
            (Token::Less, _) => (Operator::LessThan, Form::Exact),
            (_, text) => return Err(format!("found '{text}', expected: in, notin, =, ==, !=, gt, lt")),
        })
    }

    fn set(&mut self) -> Result<Vec<String>, String> {
        let (token, text) = self.next(false);
        if token != Token::Open {
            return Err(format!("found '{text}' expected: '('"));
        }
        match self.peek(false) {
            (Token::Identifier | Token::Comma, first) => {
                let first = first.to_owned();
                let values = self.identifiers()?;
                if self.next(false).0 != Token::Close {
                    return Err(format!("found '{first}', expected: ')'"));
                }
                Ok(values)
            }
            (Token::Close, _) => {
                self.at += 1;
                Ok(Vec::new())
            }
            (_, text) => Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
    }

    fn identifiers(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        loop {
            match self.next(false) {
                (Token::Identifier, text) => {
                    values.push(text);
                    match self.peek(false) {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values),
                        (_, text) => return Err(format!("found '{text}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek(false).0 {
                        Token::Close => {
                            values.push(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            self.at += 1;
                            values.push(String::new());
                        }
                        _ => {}
                    }
                }
                (_, text) => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
    }

    fn exact(&mut self) -> Result<String, String> {
        if matches!(self.peek(false).0, Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.next(false) {
            (Token::Identifier, text) => Ok(text),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn labels<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> {
        move |key| pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }

    #[rstest]
    #[case("", true)]
    #[case("tier=web", true)]
    #[case("tier==db", false)]
    #[case("tier!=web", false)]
    #[case("other!=web", true)]
    #[case("tier", true)]
    #[case("!tier", false)]
    #[case(" ! other ", true)]
    #[case("tier in (web,db)", true)]
    #[case("tier notin (web)", false)]
    #[case("other notin (web)", true)]
    #[case("empty=", true)]
    #[case("empty in (,x)", true)]
    #[case("n>4,n<6", true)]
    #[case("n>5", false)]
    #[case("tier=web,n=5", true)]
    #[case("tier=web,n=6", false)]
    #[case("in in (in)", false)]
    fn requirements_are_matched(#[case] selector: &str, #[case] expected: bool) {
        let selector = LabelSelector::parse(selector).unwrap();
        assert_eq!(selector.matches(labels(&[("tier", "web"), ("empty", ""), ("n", "5")])), expected);
    }

    #[rstest]
    #[case("a in", "unable to parse requirement: found '' expected: '('")]
    #[case("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt")]
    #[case("a,", "found '', expected: identifier after ','")]
    #[case("=a", "found '=', expected: !, identifier, or 'end of string'")]
    #[case("a=b c", "found 'c', expected: ',' or 'end of string'")]
    #[case(
        "a in ()",
        "unable to parse requirement: values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    )]
    #[case("a in (b", "unable to parse requirement: found '', expected: ',' or ')'")]
    #[case(
        "a>x",
        "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"
    )]
    #[case("!!a", "unable to parse requirement: found '!', expected: identifier")]
    fn faults_are_named(#[case] selector: &str, #[case] expected: &str) {
        assert_eq!(LabelSelector::parse(selector).unwrap_err(), expected);
    }
}
