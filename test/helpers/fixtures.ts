import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What must come out of a checkpoint, as it was worked out by torch when the checkpoint was made. */
export interface Expected {
  readonly aliases: Readonly<Record<string, string>>;
  readonly elements: number;
  /** Hash of the whole single file, for checkpoints without tied weights. */
  readonly safetensors_sha256: Readonly<Record<Precision, string>>;
  readonly tensors: Readonly<
    Record<string, { shape: number[]; stored_dtype: string; source: string; sha256: Record<Precision, string> }>
  >;
}

/** Precisions that expected results exist for. */
export const PRECISIONS = ['fp32', 'fp16', 'bf16'] as const;

/** One of them. */
export type Precision = (typeof PRECISIONS)[number];

/** Folder of the real checkpoints. */
export const FIXTURES = fileURLToPath(new URL('../golden/fixtures', import.meta.url));

/** Names of the real checkpoints. */
export const FIXTURE_NAMES: readonly string[] = readdirSync(FIXTURES).sort();

/** Path of a checkpoint, as a user would pick it. */
export function checkpointPath(name: string): string {
  return `${FIXTURES}/${name}/checkpoint`;
}

/** Expected results of a checkpoint. */
export function expectedOf(name: string): Expected {
  return JSON.parse(readFileSync(`${FIXTURES}/${name}/expected.json`, 'utf8')) as Expected;
}

/** The files of a checkpoint by path, so that a test may change them. */
export function checkpointFiles(name: string): Record<string, Uint8Array> {
  const root = checkpointPath(name);
  const paths = readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1));
  return Object.fromEntries(paths.map((path) => [path, Uint8Array.from(readFileSync(join(root, path)))]));
}
