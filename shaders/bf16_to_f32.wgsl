// The fp32 words of bf16 bits, exact.
fn bf16ToF32(bits: vec4<u32>) -> vec4<u32> {
  let nan = (bits & vec4<u32>(0x7fffu)) > vec4<u32>(0x7f80u);
  return (bits << vec4<u32>(16u)) | select(vec4<u32>(0u), vec4<u32>(0x00400000u), nan);
}
