// The fp32 word nearest to an fp64, given as its low and high word. Needs round_to_even.wgsl.
fn f64ToF32(low: u32, high: u32) -> u32 {
  let sign = high & 0x80000000u;
  let magnitude = high & 0x7fffffffu;
  // The top 24 bits of the mantissa with a place for the implicit one, and the 29 bits below.
  let mantissa = ((magnitude & 0xfffffu) << 3u) | (low >> 29u);
  let rest = low & 0x1fffffffu;
  if (magnitude >= 0x7ff00000u) {
    return sign | 0x7f800000u | select(0u, 0x00400000u | mantissa, (mantissa | rest) != 0u);
  }
  if (magnitude >= 0x47f00000u) { return sign | 0x7f800000u; }
  // 2^-126, the smallest normal fp32: the exponent bias changes from 1023 to 127. A carry may reach infinity.
  if (magnitude >= 0x38100000u) {
    let truncated = ((magnitude - 0x38000000u) << 3u) | (low >> 29u);
    return sign | (truncated + ((rest + 0x0fffffffu + (truncated & 1u)) >> 29u));
  }
  // Subnormals count in units of 2^-149. One bit stands for all that is below the 24: it only breaks ties.
  let shift = 898u - (magnitude >> 20u);
  if (shift > 25u) { return sign; }
  let sticky = select(1u, 0u, rest == 0u);
  return sign | roundToEven(((mantissa | 0x800000u) << 1u) | sticky, shift);
}
