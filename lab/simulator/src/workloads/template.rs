//! The name of a pod template: the hash that tells the ReplicaSets of a Deployment apart.

use serde_json::Value;

/// The label with the hash, on ReplicaSets and pods.
pub(super) const HASH_LABEL: &str = "pod-template-hash";
/// Characters of generated names: no vowels, nothing that is easily mistaken.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of a pod template: the same for equal templates, its own hash label aside. Another one for each count of
/// `collisions`, should the name be taken.
pub(super) fn hash(template: &Value, collisions: i64) -> String {
    let mut text = without_hash(template).to_string();
    if collisions > 0 {
        text.push_str(&collisions.to_string());
    }
    // FNV-1a, 32 bits, as upstream; over our own rendering, so the names differ from upstream's.
    let sum =
        text.bytes().fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    sum.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

/// The template without the label that a ReplicaSet's copy has.
pub(super) fn without_hash(template: &Value) -> Value {
    let mut out = template.clone();
    if let Some(labels) = out.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH_LABEL);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_hash_label_does_not_count() {
        let plain = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"image": "i:1"}]}});
        let mut copy = plain.clone();
        copy["metadata"]["labels"][HASH_LABEL] = json!("xyz");
        assert_eq!(hash(&plain, 0), hash(&copy, 0));
        copy["spec"]["containers"][0]["image"] = json!("i:2");
        assert_ne!(hash(&plain, 0), hash(&copy, 0));
        assert!(hash(&plain, 0).len() >= 5);
        assert_ne!(hash(&plain, 0), hash(&plain, 1));
    }
}
