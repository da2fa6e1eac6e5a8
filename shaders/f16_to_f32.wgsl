// The fp32 words of fp16 bits, exact.
fn f16ToF32(half: vec4<u32>) -> vec4<u32> {
  let sign = (half & vec4<u32>(0x8000u)) << vec4<u32>(16u);
  let magnitude = half & vec4<u32>(0x7fffu);
  // A subnormal of 2^-24 units: its leading bit becomes the implicit one, which adds 1 to the exponent field.
  let leading = firstLeadingBit(magnitude | vec4<u32>(1u));
  let subnormal = ((leading + vec4<u32>(102u)) << vec4<u32>(23u)) + (magnitude << (vec4<u32>(23u) - leading));
  // The exponent bias changes from 15 to 127; a second time, it takes infinity to infinity and NaNs to NaNs.
  let wide = (magnitude << vec4<u32>(13u)) + vec4<u32>(0x38000000u);
  let special = wide + vec4<u32>(0x38000000u);
  let quiet = select(vec4<u32>(0u), vec4<u32>(0x00400000u), magnitude > vec4<u32>(0x7c00u));
  var word = select(wide, special | quiet, magnitude >= vec4<u32>(0x7c00u));
  word = select(word, subnormal, magnitude < vec4<u32>(0x0400u));
  return sign | select(word, vec4<u32>(0u), magnitude == vec4<u32>(0u));
}
