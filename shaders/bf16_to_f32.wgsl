// The fp32 word of bf16 bits, exact.
fn bf16ToF32(bits: u32) -> u32 {
  let quiet = select(0u, 0x00400000u, (bits & 0x7fffu) > 0x7f80u);
  return (bits << 16u) | quiet;
}
