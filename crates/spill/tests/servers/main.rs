//! The tiers with real servers: nbdkit, redis-server, a cluster of three.

mod common;
mod nbd;
mod redis;
mod started;
