// The bf16 bits nearest to an fp32 word. Needs round_to_even.wgsl.
fn f32ToBf16(word: u32) -> u32 {
  if ((word & 0x7fffffffu) > 0x7f800000u) { return (word >> 16u) | 0x0040u; }
  return roundToEven(word, 16u);
}
