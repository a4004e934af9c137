//! A tier in memory, for tests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::tiers::{Room, Tier, Trouble, locked};

/// A tier whose failures a test chooses.
#[derive(Default)]
pub struct Made {
    pub batches: Arc<Mutex<HashMap<u64, Vec<u8>>>>,
    pub trouble: Arc<Mutex<Option<Trouble>>>,
}

impl Made {
    fn may(&self) -> Result<(), Trouble> {
        locked(&self.trouble).clone().map_or(Ok(()), Err)
    }
}

impl Tier for Made {
    fn put(&self, batch: u64, bytes: &[u8]) -> Result<(), Trouble> {
        self.may()?;
        locked(&self.batches).insert(batch, bytes.to_vec());
        Ok(())
    }

    fn get(&self, batch: u64, from: u32, into: &mut [u8]) -> Result<(), Trouble> {
        if !matches!(*locked(&self.trouble), Some(Trouble::Full | Trouble::Unfit(_))) {
            self.may()?;
        }
        let batches = locked(&self.batches);
        let bytes = batches.get(&batch).ok_or(Trouble::Lost)?;
        into.copy_from_slice(
            bytes.get(from as usize..).and_then(|rest| rest.get(..into.len())).ok_or(Trouble::Lost)?,
        );
        Ok(())
    }

    fn delete(&self, batches: &[u64]) -> Result<(), Trouble> {
        self.may()?;
        batches.iter().for_each(|batch| {
            locked(&self.batches).remove(batch);
        });
        Ok(())
    }

    fn probe(&self) -> Result<(), Trouble> {
        self.may()
    }

    fn left_at(&self) -> Option<String> {
        Some("in memory".into())
    }

    fn room(&self) -> Room {
        Room { used: locked(&self.batches).values().map(|bytes| bytes.len() as u64).sum(), most: u64::MAX }
    }

    fn name(&self) -> &str {
        "made"
    }
}
