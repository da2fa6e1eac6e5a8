// The fp16 bits nearest to an fp32 word. Needs round_to_even.wgsl.
fn f32ToF16(word: u32) -> u32 {
  let sign = (word >> 16u) & 0x8000u;
  let magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u) { return sign | 0x7e00u | ((magnitude >> 13u) & 0x1ffu); }
  // 65520 is the middle between the largest fp16 and the next power of two.
  if (magnitude >= 0x477ff000u) { return sign | 0x7c00u; }
  // 2^-14, the smallest normal fp16: the exponent bias changes from 127 to 15, and 13 bits of the mantissa go.
  if (magnitude >= 0x38800000u) { return sign | roundToEven(magnitude - 0x38000000u, 13u); }
  // Subnormals count in units of 2^-24. From a shift of 25 on, even the largest mantissa is below one half.
  let shift = 126u - (magnitude >> 23u);
  if (shift > 24u) { return sign; }
  return sign | roundToEven((magnitude & 0x7fffffu) | 0x800000u, shift);
}
