// The fp32 word of fp16 bits, exact.
fn f16ToF32(half: u32) -> u32 {
  let sign = (half & 0x8000u) << 16u;
  let magnitude = half & 0x7fffu;
  if (magnitude > 0x7c00u) { return sign | 0x7fc00000u | ((magnitude & 0x3ffu) << 13u); }
  if (magnitude == 0x7c00u) { return sign | 0x7f800000u; }
  if (magnitude >= 0x0400u) { return sign | ((magnitude << 13u) + 0x38000000u); }
  if (magnitude == 0u) { return sign; }
  // A subnormal of 2^-24 units: its leading bit becomes the implicit one, which adds 1 to the exponent field.
  let leading = firstLeadingBit(magnitude);
  return sign | (((leading + 102u) << 23u) + (magnitude << (23u - leading)));
}
