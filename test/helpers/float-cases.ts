/**
 * Named bit patterns with what they become. The results are those of torch 2.13 on the CPU (`tensor.to(dtype)`), except
 * for NaNs, whose payload differs between builds of torch: there they follow the rule of `numeric/bits.ts`. Each case
 * stands for its negative as well, which differs in the sign only.
 *
 * @module
 */

/** A pattern of fp32. */
export interface F32Case {
  readonly name: string;
  readonly f32: number;
  readonly f16: number;
  readonly bf16: number;
}

/** A pattern of fp64, as its high and low word. */
export interface F64Case {
  readonly name: string;
  readonly high: number;
  readonly low: number;
  readonly f32: number;
  readonly f16: number;
  readonly bf16: number;
}

const F32_ROWS: readonly (readonly [name: string, f32: number, f16: number, bf16: number])[] = [
  ['zero', 0x00000000, 0x0000, 0x0000],
  ['smallest subnormal', 0x00000001, 0x0000, 0x0000],
  ['subnormal below half of the smallest bf16', 0x00007fff, 0x0000, 0x0000],
  ['half of the smallest bf16, a tie to zero', 0x00008000, 0x0000, 0x0000],
  ['just above half of the smallest bf16', 0x00008001, 0x0000, 0x0001],
  ['one and a half of the smallest bf16, a tie to two', 0x00018000, 0x0000, 0x0002],
  ['largest subnormal', 0x007fffff, 0x0000, 0x0080],
  ['smallest normal', 0x00800000, 0x0000, 0x0080],
  ['just below half of the smallest fp16', 0x32ffffff, 0x0000, 0x3300],
  ['half of the smallest fp16, a tie to zero', 0x33000000, 0x0000, 0x3300],
  ['just above half of the smallest fp16', 0x33000001, 0x0001, 0x3300],
  ['smallest fp16', 0x33800000, 0x0001, 0x3380],
  ['one and a half of the smallest fp16, a tie to two', 0x33c00000, 0x0002, 0x33c0],
  ['just below one and a half of the smallest fp16', 0x33bfffff, 0x0001, 0x33c0],
  ['two and a half of the smallest fp16, a tie to two', 0x34200000, 0x0002, 0x3420],
  ['largest fp16 subnormal', 0x387fc000, 0x03ff, 0x3880],
  ['between the fp16 subnormals and normals, a tie to normal', 0x387fe000, 0x0400, 0x3880],
  ['just below that tie', 0x387fdfff, 0x03ff, 0x3880],
  ['smallest fp16 normal', 0x38800000, 0x0400, 0x3880],
  ['one', 0x3f800000, 0x3c00, 0x3f80],
  ['one and half an fp16 step, a tie to one', 0x3f801000, 0x3c00, 0x3f80],
  ['just above that tie', 0x3f801001, 0x3c01, 0x3f80],
  ['one and one and a half fp16 steps, a tie up', 0x3f803000, 0x3c02, 0x3f80],
  ['just below the tie up', 0x3f802fff, 0x3c01, 0x3f80],
  ['one and half a bf16 step, a tie to one', 0x3f808000, 0x3c04, 0x3f80],
  ['just above that bf16 tie', 0x3f808001, 0x3c04, 0x3f81],
  ['one and one and a half bf16 steps, a tie up', 0x3f818000, 0x3c0c, 0x3f82],
  ['just below the bf16 tie up', 0x3f817fff, 0x3c0c, 0x3f81],
  ['mantissa all ones, a carry into the exponent', 0x3fffffff, 0x4000, 0x4000],
  ['largest fp16, 65504', 0x477fe000, 0x7bff, 0x4780],
  ['last value that rounds to the largest fp16', 0x477fefff, 0x7bff, 0x4780],
  ['65520, the first that fp16 cannot hold', 0x477ff000, 0x7c00, 0x4780],
  ['65536', 0x47800000, 0x7c00, 0x4780],
  ['1e9', 0x4e6e6b28, 0x7c00, 0x4e6e],
  ['largest bf16', 0x7f7f0000, 0x7c00, 0x7f7f],
  ['last value that rounds to the largest bf16', 0x7f7f7fff, 0x7c00, 0x7f7f],
  ['first that bf16 cannot hold', 0x7f7f8000, 0x7c00, 0x7f80],
  ['largest finite', 0x7f7fffff, 0x7c00, 0x7f80],
  ['infinity', 0x7f800000, 0x7c00, 0x7f80],
  ['signalling NaN, payload 1', 0x7f800001, 0x7e00, 0x7fc0],
  ['signalling NaN, payload 0x12345', 0x7f812345, 0x7e09, 0x7fc1],
  ['signalling NaN, all payload bits', 0x7fbfffff, 0x7fff, 0x7fff],
  ['quiet NaN', 0x7fc00000, 0x7e00, 0x7fc0],
  ['quiet NaN, all payload bits', 0x7fffffff, 0x7fff, 0x7fff],
  ['NaN, payload 0x2bcdef', 0x7fabcdef, 0x7f5e, 0x7feb],
];

const F64_ROWS: readonly (readonly [
  name: string,
  high: number,
  low: number,
  f32: number,
  f16: number,
  bf16: number,
])[] = [
  ['zero', 0x00000000, 0x00000000, 0x00000000, 0x0000, 0x0000],
  ['smallest subnormal', 0x00000000, 0x00000001, 0x00000000, 0x0000, 0x0000],
  ['largest subnormal', 0x000fffff, 0xffffffff, 0x00000000, 0x0000, 0x0000],
  ['smallest normal', 0x00100000, 0x00000000, 0x00000000, 0x0000, 0x0000],
  ['just below half of the smallest fp32', 0x368fffff, 0xffffffff, 0x00000000, 0x0000, 0x0000],
  ['half of the smallest fp32, a tie to zero', 0x36900000, 0x00000000, 0x00000000, 0x0000, 0x0000],
  ['just above half of the smallest fp32', 0x36900000, 0x00000001, 0x00000001, 0x0000, 0x0000],
  ['smallest fp32', 0x36a00000, 0x00000000, 0x00000001, 0x0000, 0x0000],
  ['one and a half of the smallest fp32, a tie to two', 0x36a80000, 0x00000000, 0x00000002, 0x0000, 0x0000],
  ['just below that tie', 0x36a7ffff, 0xffffffff, 0x00000001, 0x0000, 0x0000],
  ['two and a half of the smallest fp32, a tie to two', 0x36b40000, 0x00000000, 0x00000002, 0x0000, 0x0000],
  ['largest fp32 subnormal', 0x380fffff, 0xc0000000, 0x007fffff, 0x0000, 0x0080],
  ['between the fp32 subnormals and normals, a tie to normal', 0x380fffff, 0xe0000000, 0x00800000, 0x0000, 0x0080],
  ['just below the tie to normal', 0x380fffff, 0xdfffffff, 0x007fffff, 0x0000, 0x0080],
  ['smallest fp32 normal', 0x38100000, 0x00000000, 0x00800000, 0x0000, 0x0080],
  ['half of the smallest bf16, in fp32 after rounding', 0x37900000, 0x00000001, 0x00008000, 0x0000, 0x0000],
  ['just above half of the smallest bf16', 0x37900020, 0x00000000, 0x00008001, 0x0000, 0x0001],
  ['half of the smallest fp16, in fp32 after rounding', 0x3e600000, 0x00000001, 0x33000000, 0x0000, 0x3300],
  ['just above half of the smallest fp16', 0x3e600000, 0x20000000, 0x33000001, 0x0001, 0x3300],
  ['one and a half of the smallest fp16', 0x3e780000, 0x00000000, 0x33c00000, 0x0002, 0x33c0],
  ['one', 0x3ff00000, 0x00000000, 0x3f800000, 0x3c00, 0x3f80],
  ['1 + 2^-24, a tie to one in fp32', 0x3ff00000, 0x10000000, 0x3f800000, 0x3c00, 0x3f80],
  ['just above that tie', 0x3ff00000, 0x10000001, 0x3f800001, 0x3c00, 0x3f80],
  ['1 + 3 * 2^-24, a tie up in fp32', 0x3ff00000, 0x30000000, 0x3f800002, 0x3c00, 0x3f80],
  ['just below the tie up', 0x3ff00000, 0x2fffffff, 0x3f800001, 0x3c00, 0x3f80],
  ['1 + 2^-11 + 2^-40, rounded twice to fp16', 0x3ff00200, 0x00001000, 0x3f801000, 0x3c00, 0x3f80],
  ['1 + 2^-11 + 2^-23', 0x3ff00200, 0x20000000, 0x3f801001, 0x3c01, 0x3f80],
  ['1 + 2^-8 + 2^-40, rounded twice to bf16', 0x3ff01000, 0x00001000, 0x3f808000, 0x3c04, 0x3f80],
  ['1 + 2^-8 + 2^-23', 0x3ff01000, 0x20000000, 0x3f808001, 0x3c04, 0x3f81],
  ['mantissa all ones', 0x3fffffff, 0xffffffff, 0x40000000, 0x4000, 0x4000],
  ['pi', 0x400921fb, 0x54442d18, 0x40490fdb, 0x4248, 0x4049],
  ['1/3', 0x3fd55555, 0x55555555, 0x3eaaaaab, 0x3555, 0x3eab],
  ['largest fp16', 0x40effc00, 0x00000000, 0x477fe000, 0x7bff, 0x4780],
  ['below 65520 by less than fp32 can tell', 0x40effdff, 0xffffffff, 0x477ff000, 0x7c00, 0x4780],
  ['below 65520 by an fp32 step', 0x40effdff, 0xe0000000, 0x477fefff, 0x7bff, 0x4780],
  ['65520', 0x40effe00, 0x00000000, 0x477ff000, 0x7c00, 0x4780],
  ['last that rounds to the largest bf16', 0x47efefff, 0xe0000000, 0x7f7f7fff, 0x7c00, 0x7f7f],
  ['first that bf16 cannot hold', 0x47eff000, 0x00000000, 0x7f7f8000, 0x7c00, 0x7f80],
  ['below it by less than fp32 can tell', 0x47efefff, 0xffffffff, 0x7f7f8000, 0x7c00, 0x7f80],
  ['largest fp32', 0x47efffff, 0xe0000000, 0x7f7fffff, 0x7c00, 0x7f80],
  ['last that rounds to the largest fp32', 0x47efffff, 0xefffffff, 0x7f7fffff, 0x7c00, 0x7f80],
  ['first that fp32 cannot hold', 0x47efffff, 0xf0000000, 0x7f800000, 0x7c00, 0x7f80],
  ['2^128', 0x47f00000, 0x00000000, 0x7f800000, 0x7c00, 0x7f80],
  ['1e300', 0x7e37e43c, 0x8800759c, 0x7f800000, 0x7c00, 0x7f80],
  ['largest finite', 0x7fefffff, 0xffffffff, 0x7f800000, 0x7c00, 0x7f80],
  ['infinity', 0x7ff00000, 0x00000000, 0x7f800000, 0x7c00, 0x7f80],
  ['signalling NaN, payload in the low word only', 0x7ff00000, 0x00000001, 0x7fc00000, 0x7e00, 0x7fc0],
  ['signalling NaN, payload below fp32', 0x7ff00000, 0x1fffffff, 0x7fc00000, 0x7e00, 0x7fc0],
  ['signalling NaN, payload in both words', 0x7ff12345, 0x6789abcd, 0x7fc91a2b, 0x7e48, 0x7fc9],
  ['quiet NaN', 0x7ff80000, 0x00000000, 0x7fc00000, 0x7e00, 0x7fc0],
  ['quiet NaN, all payload bits', 0x7fffffff, 0xffffffff, 0x7fffffff, 0x7fff, 0x7fff],
];

/** Zeros, ties, both sides of every boundary, infinities and NaNs of fp32, positive. */
export const F32_CASES: readonly F32Case[] = F32_ROWS.map(([name, f32, f16, bf16]) => ({ name, f32, f16, bf16 }));

/** The same of fp64. */
export const F64_CASES: readonly F64Case[] = F64_ROWS.map(([name, high, low, f32, f16, bf16]) => ({
  name,
  high,
  low,
  f32,
  f16,
  bf16,
}));
