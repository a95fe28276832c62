//! What a ServiceCIDR means (`networking.k8s.io/v1`, KEP-1880).

use k8s_openapi::api::networking::v1::{ServiceCIDR, ServiceCIDRStatus};
use serde::Serialize;

use crate::address::{Cidr, Family, validate_cidr};
use crate::errors::{BadValue, FieldErrors, Path, invalid, required};
use crate::meta::{self, Naming};
use crate::object::Normalize;

const MAX_CIDRS: usize = 2;

/// Drops empty values.
pub fn default(cidr: &mut ServiceCIDR) {
    cidr.normalize();
}

/// Prepares a defaulted ServiceCIDR for a create: the status goes.
pub fn prepare_create(cidr: &mut ServiceCIDR) {
    meta::prepare_create(&mut cidr.metadata);
    cidr.status = Some(ServiceCIDRStatus::default());
}

/// Prepares an update of the main resource: the status stays.
pub fn prepare_update(new: &mut ServiceCIDR, old: &ServiceCIDR) {
    meta::prepare_update(&mut new.metadata, &old.metadata);
    new.status = Some(old.status.clone().unwrap_or_default());
}

/// Prepares an update of the status subresource: everything else stays.
pub fn prepare_status_update(new: &mut ServiceCIDR, old: &ServiceCIDR) {
    meta::prepare_update(&mut new.metadata, &old.metadata);
    meta::reset_for_status(&mut new.metadata, &old.metadata);
    new.spec.clone_from(&old.spec);
}

fn cidrs(cidr: &ServiceCIDR) -> &[String] {
    cidr.spec.as_ref().and_then(|s| s.cidrs.as_deref()).unwrap_or_default()
}

fn cidrs_value(cidr: &ServiceCIDR) -> BadValue {
    let list = cidr.spec.as_ref().and_then(|s| s.cidrs.as_ref());
    list.map_or(BadValue::Null, BadValue::json)
}

/// How upstream prints a whole spec.
#[derive(Serialize)]
struct Spec<'a> {
    #[serde(rename = "CIDRs")]
    cidrs: &'a [String],
}

/// Errors of a ServiceCIDR that shall be created.
pub fn validate_create(cidr: &ServiceCIDR) -> FieldErrors {
    let mut errors = meta::validate_object_meta(&cidr.metadata, Naming::CLUSTER_SUBDOMAIN);
    errors.extend(validate_spec(cidr));
    errors
}

fn validate_spec(cidr: &ServiceCIDR) -> FieldErrors {
    let path = Path::root("spec").child("cidrs");
    let list = cidrs(cidr);
    if list.is_empty() {
        return vec![required(&path, "at least one CIDR required")].into();
    }
    if list.len() > MAX_CIDRS {
        return vec![invalid(&path, BadValue::json(&Spec { cidrs: list }), "may only hold up to 2 values")]
            .into();
    }
    let each = list.iter().enumerate();
    let mut errors: FieldErrors =
        each.flat_map(|(i, text)| validate_cidr(&path.index(i), text, true)).collect();
    if is_twice_one_family(list) {
        errors.push(invalid(
            &path,
            list,
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
        ));
    }
    errors
}

fn is_twice_one_family(list: &[String]) -> bool {
    let family = |text: &String| Cidr::parse_lenient(text).map(|c| Family::of(c.ip));
    matches!(list, [a, b] if family(a).is_some() && family(a) == family(b))
}

/// Errors of an update: CIDRs stay, but one of the other family may be added to a single one.
pub fn validate_update(new: &ServiceCIDR, old: &ServiceCIDR) -> FieldErrors {
    let mut errors = meta::validate_object_meta_update(&new.metadata, &old.metadata);
    let path = Path::root("spec").child("cidrs");
    let (list, old_list) = (cidrs(new), cidrs(old));
    let extends = old_list.len() == 1 && list.len() == MAX_CIDRS;
    if !extends && list.len() != old_list.len() {
        errors.push(invalid(&path, cidrs_value(new), meta::IMMUTABLE));
        return errors;
    }
    let pairs = list.iter().zip(old_list).enumerate();
    for (i, (text, _)) in pairs.filter(|(_, (new, old))| new != old) {
        errors.push(invalid(path.index(i), text, meta::IMMUTABLE));
    }
    if extends {
        errors.extend(validate_spec(new));
    }
    errors
}

/// Errors of an update of the status subresource.
pub fn validate_status_update(new: &ServiceCIDR, old: &ServiceCIDR) -> FieldErrors {
    meta::validate_object_meta_update(&new.metadata, &old.metadata)
}

/// Warnings of a create or an update: there are none.
pub fn warnings(_new: &ServiceCIDR, _old: Option<&ServiceCIDR>) -> Vec<String> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn cidr(list: &[&str]) -> ServiceCIDR {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"cidrs": list},
        }))
        .unwrap()
    }

    #[rstest]
    #[case(&["10.0.0.0/8", "bad"], &["spec.cidrs[1]"])]
    #[case(&["bad", "worse"], &["spec.cidrs[0]", "spec.cidrs[1]"])]
    #[case(&["10.0.0.0/8", "10.1.0.0/16"], &["spec.cidrs"])]
    #[case(&["10.0.0.1/8", "10.1.0.0/16"], &["spec.cidrs[0]", "spec.cidrs"])]
    #[case(&["10.0.0.0/8", "fd00::/112"], &[])]
    #[case(&[], &["spec.cidrs"])]
    fn creates(#[case] list: &[&str], #[case] fields: &[&str]) {
        let found: Vec<_> = validate_create(&cidr(list)).into_iter().map(|error| error.field).collect();
        assert_eq!(found, fields);
    }

    #[rstest]
    #[case(&["10.0.0.0/8"], &["10.0.0.0/8"], 0)]
    #[case(&["10.0.0.0/8"], &["10.0.0.0/8", "fd00::/112"], 0)]
    #[case(&["10.0.0.0/8", "fd00::/112"], &["10.0.0.0/8"], 1)]
    #[case(&["10.0.0.0/8"], &[], 1)]
    #[case(&["10.0.0.0/8"], &["10.0.0.0/8", "bad"], 1)]
    #[case(&["10.0.0.0/8", "fd00::/112"], &["11.0.0.0/8", "fd01::/112"], 2)]
    #[case(&["10.0.0.0/8"], &["11.0.0.0/8", "fd00::/112"], 1)]
    #[case(&["10.0.0.0/8"], &["11.0.0.0/8", "12.0.0.0/8"], 2)]
    #[case(&["10.0.0.0/8"], &["11.0.0.1/8", "fd00::1/112"], 3)]
    fn updates(#[case] old: &[&str], #[case] new: &[&str], #[case] count: usize) {
        let errors = validate_update(&cidr(new), &cidr(old));
        assert_eq!(errors.len(), count, "{errors:?}");
    }
}
