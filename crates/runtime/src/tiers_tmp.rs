//! temporary
use memfold::store::*;
use memfold_codec::{Codec, Compressed, Scratch};
pub enum Tier { Fast }
pub struct Tiered<M: Memory> { pub s: Store<M>, fast: &'static dyn Codec }
impl<M: Memory> Tiered<M> {
    pub fn new(m: M, fast: &'static dyn Codec, _d: Option<&'static dyn Codec>) -> Self { Tiered { s: Store::new(m), fast } }
    pub fn encode_scratch(&self, n: usize) -> usize { self.fast.compress_scratch(n).max(64) }
    pub fn decode_scratch(&self, n: usize) -> usize { self.fast.decompress_scratch(n).max(64) }
    pub fn insert(&self, _t: Tier, owner: u64, b: &[u8], sc: &mut Scratch<'_>) -> Result<Ref, Full> {
        let mut buf = [0u8; 5000];
        match self.fast.compress(b, &mut buf, 3500, sc) {
            Compressed::Fits(n) => self.s.put(owner, 1, &buf[..n]),
            _ => self.s.put(owner, 0, b),
        }
    }
    pub fn load(&self, r: Ref, owner: u64, dst: &mut [u8], sc: &mut Scratch<'_>) -> Result<(), Corrupt> {
        let b = unsafe { self.s.get(r, owner) }?;
        if b.tag == 0 { dst.copy_from_slice(b.payload); Ok(()) } else { self.fast.decompress(b.payload, dst, sc).map_err(|_| Corrupt) }
    }
    pub fn free(&self, r: Ref, owner: u64, o: &impl Owners) -> Result<(), Corrupt> { self.s.free(r, owner, o) }
    pub fn reown(&self, r: Ref, a: u64, b: u64) -> Result<(), Corrupt> { self.s.reown(r, a, b) }
    pub fn maintain(&self, o: &impl Owners, n: usize) { self.s.maintain(o, n); }
    pub fn stats(&self) -> Stats { self.s.stats() }
}
