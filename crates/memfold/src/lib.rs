//! memfold keeps more in memory than fits.
#![no_std]

#[cfg(any(feature = "std", test))]
extern crate std;
