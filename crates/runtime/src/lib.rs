//! Pages whole processes into compressed memory.
#![no_std]

pub mod shared;
