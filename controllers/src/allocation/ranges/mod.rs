//! The controllers of NodePortRanges and ServicePools: finalizers, conditions, and how full they are.

pub(crate) mod plan;
pub(crate) mod pools;
pub(crate) mod reconcile;
