//! Making room: when something is done, which pages go, and what they become.

pub mod compress;
pub mod copies;
pub mod dense;
pub mod evict;
pub mod hope;
pub mod incompressible;
pub mod pins;
pub mod turns;
pub mod watch;
pub mod worker;
