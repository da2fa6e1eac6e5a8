// The fp16 bits nearest to fp32 words. Needs round_to_even.wgsl.
fn f32ToF16(word: vec4<u32>) -> vec4<u32> {
  let sign = (word >> vec4<u32>(16u)) & vec4<u32>(0x8000u);
  let magnitude = word & vec4<u32>(0x7fffffffu);
  // From 2^-14 on, the smallest normal fp16: the exponent bias changes from 127 to 15, and 13 bits of the mantissa go.
  let normal = roundToEven(magnitude - vec4<u32>(0x38000000u), vec4<u32>(13u));
  // Subnormals count in units of 2^-24. From a shift of 25 on, even the largest mantissa is below one half.
  let shift = min(vec4<u32>(126u) - min(magnitude >> vec4<u32>(23u), vec4<u32>(112u)), vec4<u32>(25u));
  let subnormal = roundToEven((magnitude & vec4<u32>(0x7fffffu)) | vec4<u32>(0x800000u), shift);
  var half = select(subnormal, normal, magnitude >= vec4<u32>(0x38800000u));
  // 65520 is the middle between the largest fp16 and the next power of two.
  half = select(half, vec4<u32>(0x7c00u), magnitude >= vec4<u32>(0x477ff000u));
  let nan = vec4<u32>(0x7e00u) | ((magnitude >> vec4<u32>(13u)) & vec4<u32>(0x1ffu));
  return sign | select(half, nan, magnitude > vec4<u32>(0x7f800000u));
}
