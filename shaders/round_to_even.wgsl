// value / 2^shift, rounded to the nearest integer, ties to even. shift is 1 to 31; value + 2^(shift - 1) fits 32 bits.
fn roundToEven(value: vec4<u32>, shift: vec4<u32>) -> vec4<u32> {
  let one = vec4<u32>(1u);
  return (value + ((one << (shift - one)) - one) + ((value >> shift) & one)) >> shift;
}
