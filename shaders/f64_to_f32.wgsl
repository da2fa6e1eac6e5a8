// The fp32 words nearest to fp64, given as their low and high words. Needs round_to_even.wgsl.
fn f64ToF32(low: vec4<u32>, high: vec4<u32>) -> vec4<u32> {
  let sign = high & vec4<u32>(0x80000000u);
  let magnitude = high & vec4<u32>(0x7fffffffu);
  // The top 24 bits of the mantissa with a place for the implicit one, and the 29 bits below.
  let mantissa = ((magnitude & vec4<u32>(0xfffffu)) << vec4<u32>(3u)) | (low >> vec4<u32>(29u));
  let rest = low & vec4<u32>(0x1fffffffu);
  // From 2^-126 on, the smallest normal fp32: the exponent bias changes from 1023 to 127. A carry may reach infinity.
  let truncated = ((magnitude - vec4<u32>(0x38000000u)) << vec4<u32>(3u)) | (low >> vec4<u32>(29u));
  let carry = (rest + vec4<u32>(0x0fffffffu) + (truncated & vec4<u32>(1u))) >> vec4<u32>(29u);
  let normal = truncated + carry;
  // Subnormals count in units of 2^-149. One bit stands for all that is below the 24: it only breaks ties. From a shift
  // of 26 on, even the largest mantissa is below one half.
  let shift = min(vec4<u32>(898u) - min(magnitude >> vec4<u32>(20u), vec4<u32>(896u)), vec4<u32>(26u));
  let sticky = select(vec4<u32>(1u), vec4<u32>(0u), rest == vec4<u32>(0u));
  let subnormal = roundToEven(((mantissa | vec4<u32>(0x800000u)) << vec4<u32>(1u)) | sticky, shift);
  var word = select(subnormal, normal, magnitude >= vec4<u32>(0x38100000u));
  word = select(word, vec4<u32>(0x7f800000u), magnitude >= vec4<u32>(0x47f00000u));
  let nan = (magnitude >= vec4<u32>(0x7ff00000u)) & ((mantissa | rest) != vec4<u32>(0u));
  return sign | select(word, vec4<u32>(0x7fc00000u) | mantissa, nan);
}
