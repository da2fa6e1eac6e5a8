import { bytesOf, DTYPES, type DType } from '../base/dtype.js';
import type { Flip } from '../formats/torch/tensor.js';

/** The bit of a little-endian element's last byte that holds its sign. */
const SIGN = 0x80;

/**
 * Applies the neg and conj bits of a lazy view to elements in place: the sign bit of each real part, of each imaginary
 * part, or of both is turned. Rounding is symmetric, so this may come after a conversion.
 */
export function flipSigns(bytes: Uint8Array, dtype: DType, flip: Flip): void {
  const size = bytesOf(dtype);
  const complex = DTYPES[dtype].kind === 'complex';
  const turnsReal = flip !== 'conj';
  // conj turns the imaginary part, neg turns both, so together they turn the real part alone.
  const turnsImaginary = complex && flip !== 'neg-conj';
  for (let at = 0; at < bytes.length; at += size) {
    if (turnsReal) turn(bytes, complex ? at + size / 2 - 1 : at + size - 1);
    if (turnsImaginary) turn(bytes, at + size - 1);
  }
}

function turn(bytes: Uint8Array, at: number): void {
  bytes[at] = (bytes[at] ?? 0) ^ SIGN;
}
