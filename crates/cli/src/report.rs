//! placeholder
pub fn page(_: &crate::stats::Stats, _: &[crate::series::Point]) -> String {
    String::new()
}
