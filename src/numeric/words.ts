/** The bytes as 16-bit words. They start at a multiple of 2 in their buffer. */
export function words16(bytes: Uint8Array): Uint16Array {
  return new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 2);
}

/** The bytes as 32-bit words. They start at a multiple of 4 in their buffer. */
export function words32(bytes: Uint8Array): Uint32Array {
  return new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
}
