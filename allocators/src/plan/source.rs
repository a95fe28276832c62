//! Where the values of a plan come from: the whole ranges, or a part of them.
//!
//! Owns the seam between the plan for a Service and the choice of a value. A source never takes a value.

use std::net::IpAddr;

use rand::Rng;

use crate::error::AddressError;
use crate::ip::AddressLedger;
use crate::port::{PortError, PortLedger};
use crate::prefix::Family;

/// Chooses values for one Service, and may refuse those it asks for.
pub trait Source {
    /// A free address.
    ///
    /// # Errors
    /// When none is left for this Service.
    fn choose_address(&mut self, ledger: &AddressLedger, family: Family) -> Result<IpAddr, AddressError>;

    /// A free port that is none of `except`, which is ascending.
    ///
    /// # Errors
    /// When none is left for this Service.
    fn choose_port(&mut self, ledger: &PortLedger, except: &[u16]) -> Result<u16, PortError>;

    /// Whether this Service may have the free address that it asks for.
    ///
    /// # Errors
    /// Why not.
    fn admit_address(&self, address: IpAddr) -> Result<(), AddressError> {
        let _ = address;
        Ok(())
    }

    /// Whether this Service may have the port that it asks for.
    ///
    /// # Errors
    /// Why not.
    fn admit_port(&self, port: u16) -> Result<(), PortError> {
        let _ = port;
        Ok(())
    }
}

/// Upstream's: any value of any ready range, the upper bands first.
#[derive(Debug)]
pub struct WholeRanges<'r, R>(pub &'r mut R);

impl<R: Rng> Source for WholeRanges<'_, R> {
    fn choose_address(&mut self, ledger: &AddressLedger, family: Family) -> Result<IpAddr, AddressError> {
        ledger.choose(family, self.0)
    }

    fn choose_port(&mut self, ledger: &PortLedger, except: &[u16]) -> Result<u16, PortError> {
        ledger.choose(except, self.0)
    }
}
