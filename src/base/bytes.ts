/** Words that are compared before it is looked whether any differs: so many cost less than looking after each. */
const STRIDE = 8;

/** True where two runs of bytes are the same. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && firstDifference(a, b, 0) === a.length;
}

/** Where two runs of as many bytes differ: undefined where they do so in more than `most` places. */
export function differingPlaces(a: Uint8Array, b: Uint8Array, most: number): number[] | undefined {
  const places: number[] = [];
  for (let at = firstDifference(a, b, 0); at < a.length; at = firstDifference(a, b, at + 1)) {
    if (places.length === most) return undefined;
    places.push(at);
  }
  return places;
}

/** A copy that lies in words as what is at `offset` of a file does, which is read in whole words. */
export function alignedCopy(bytes: Uint8Array, offset = bytes.byteOffset): Uint8Array<ArrayBuffer> {
  const shift = offset % 4;
  const copy = new Uint8Array(shift + bytes.length).subarray(shift);
  copy.set(bytes);
  return copy;
}

/**
 * Where two runs of as many bytes differ first, from `from` on; their length where they do not. Made for megabytes: words
 * are compared where both runs lie alike in them.
 */
function firstDifference(a: Uint8Array, b: Uint8Array, from: number): number {
  let at = from;
  if (a.byteOffset % 4 === b.byteOffset % 4) {
    for (; at < a.length && (a.byteOffset + at) % 4 !== 0; at++) if (a[at] !== b[at]) return at;
    const count = Math.floor((a.length - at) / 4);
    if (count > 0) {
      const left = new Int32Array(a.buffer, a.byteOffset + at, count);
      const right = new Int32Array(b.buffer, b.byteOffset + at, count);
      at += sameWords(left, right) * 4;
    }
  }
  while (at < a.length && a[at] === b[at]) at++;
  return at;
}

/** Words from the start that are the same, counted in strides. */
function sameWords(left: Int32Array, right: Int32Array): number {
  const word = (words: Int32Array, at: number) => words[at] as number;
  let at = 0;
  for (; at + STRIDE <= left.length; at += STRIDE) {
    const differing =
      (word(left, at) ^ word(right, at)) |
      (word(left, at + 1) ^ word(right, at + 1)) |
      (word(left, at + 2) ^ word(right, at + 2)) |
      (word(left, at + 3) ^ word(right, at + 3)) |
      (word(left, at + 4) ^ word(right, at + 4)) |
      (word(left, at + 5) ^ word(right, at + 5)) |
      (word(left, at + 6) ^ word(right, at + 6)) |
      (word(left, at + 7) ^ word(right, at + 7));
    if (differing !== 0) break;
  }
  return at;
}
