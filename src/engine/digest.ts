import { createSHA256 } from 'hash-wasm';

/** A SHA-256 that is taken piece by piece. */
export interface Digest {
  update(bytes: Uint8Array): void;
  /** 64 hexadecimal digits. Nothing can be added after it. */
  hex(): string;
}

/** Starts a SHA-256. */
export async function startDigest(): Promise<Digest> {
  const hasher = await createSHA256();
  hasher.init();
  return { update: (bytes) => void hasher.update(bytes), hex: () => hasher.digest('hex') };
}
