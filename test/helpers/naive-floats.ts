/** Floating-point formats by arithmetic on doubles, slow and plain. It shares nothing with the converter of the product. */

/** Bits of the mantissa, exponents of the smallest normal number and of the first power of two that is too large. */
const FORMATS = {
  F16: { bytes: 2, mantissa: 10, lowest: -14, beyond: 16 },
  BF16: { bytes: 2, mantissa: 7, lowest: -126, beyond: 128 },
  F32: { bytes: 4, mantissa: 23, lowest: -126, beyond: 128 },
} as const;

/** The formats. */
export type NaiveFloat = keyof typeof FORMATS;

/** The nearest number of the format, ties to even, or an infinity. */
export function roundTo(dtype: NaiveFloat, value: number): number {
  const { mantissa, lowest, beyond } = FORMATS[dtype];
  if (!Number.isFinite(value) || value === 0) return value;
  // The logarithm may be off by one next to a power of two.
  let exponent = Math.max(Math.floor(Math.log2(Math.abs(value))) - 1, lowest);
  while (2 ** (exponent + 1) <= Math.abs(value)) exponent++;
  const step = 2 ** (exponent - mantissa);
  const steps = Math.floor(Math.abs(value) / step);
  const rest = Math.abs(value) / step - steps;
  const rounded = (rest > 0.5 || (rest === 0.5 && steps % 2 === 1) ? steps + 1 : steps) * step;
  const signed = value < 0 ? -rounded : rounded;
  return rounded < 2 ** beyond ? signed : signed * Number.POSITIVE_INFINITY;
}

/** Little-endian elements of a format. NaN becomes the quiet one without a sign. */
export function encodeFloats(dtype: NaiveFloat, values: readonly number[]): Uint8Array<ArrayBuffer> {
  const { bytes } = FORMATS[dtype];
  const view = new DataView(new ArrayBuffer(values.length * bytes));
  for (const [i, value] of values.entries()) {
    const rounded = roundTo(dtype, value);
    const sign = rounded < 0 || Object.is(rounded, -0) ? 0x8000 : 0;
    if (dtype === 'F16') view.setUint16(2 * i, sign + (HALVES.get(Math.abs(rounded)) ?? 0x7e00), true);
    else if (dtype === 'F32') view.setFloat32(4 * i, rounded, true);
    else view.setUint16(2 * i, new DataView(encodeFloats('F32', [rounded]).buffer).getUint16(2, true), true);
  }
  return new Uint8Array(view.buffer);
}

/** The numbers that little-endian elements stand for. */
export function decodeFloats(dtype: NaiveFloat, bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: bytes.length / FORMATS[dtype].bytes }, (_, i) => {
    if (dtype === 'F32') return view.getFloat32(4 * i, true);
    const bits = view.getUint16(2 * i, true);
    return dtype === 'F16'
      ? halfValue(bits)
      : (decodeFloats('F32', new Uint8Array([0, 0, bits & 255, bits >> 8]))[0] ?? 0);
  });
}

function halfValue(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const mantissa = (bits & 0x3ff) / 1024;
  const size = exponent === 0 ? mantissa * 2 ** -14 : (1 + mantissa) * 2 ** (exponent - 15);
  const special = mantissa === 0 ? Number.POSITIVE_INFINITY : Number.NaN;
  return (bits & 0x8000 ? -1 : 1) * (exponent === 31 ? special : size);
}

/** Bits of every fp16 number without a sign. NaN is not among them. */
const HALVES = new Map(Array.from({ length: 0x7c01 }, (_, bits) => [halfValue(bits), bits]));
