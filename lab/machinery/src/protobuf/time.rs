//! Times in protobuf: seconds and nanoseconds since 1970.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fault::Fault;
use super::wire::{Reader, Token};

/// The time as the API's JSON has it; nothing set is no time. `micros`: with a fraction (`MicroTime`).
pub(super) fn read(bytes: &[u8], micros: bool) -> Result<Value, Fault> {
    let (mut seconds, mut nanos) = (0, 0);
    for token in Reader::new("Timestamp", bytes) {
        match token? {
            (1, Token::Varint(given)) => seconds = given.cast_signed(),
            (2, Token::Varint(given)) => {
                nanos = i32::try_from(given.cast_signed()).map_err(|_| Fault::Time)?;
            }
            _ => {}
        }
    }
    if seconds == 0 && nanos == 0 {
        return Ok(Value::Null);
    }
    // A time in seconds drops the fraction; it does not round.
    let time = Timestamp::new(seconds, if micros { nanos } else { 0 }).map_err(|_| Fault::Time)?;
    let format = if micros { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(json!(time.strftime(format).to_string()))
}
