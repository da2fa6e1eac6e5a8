// The bf16 bits nearest to fp32 words. Needs round_to_even.wgsl.
fn f32ToBf16(word: vec4<u32>) -> vec4<u32> {
  let nan = (word & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
  let quiet = (word >> vec4<u32>(16u)) | vec4<u32>(0x0040u);
  return select(roundToEven(word, vec4<u32>(16u)), quiet, nan);
}
