// value / 2^shift, rounded to the nearest integer, ties to even. shift is 1 to 31; value + 2^(shift - 1) fits 32 bits.
fn roundToEven(value: u32, shift: u32) -> u32 {
  return (value + ((1u << (shift - 1u)) - 1u) + ((value >> shift) & 1u)) >> shift;
}
