/**
 * Compares the rows of embedding and head with the vocabulary that config.json names, and trims them where asked.
 *
 * @module
 */

import { bytesOf } from '../base/dtype.js';
import { UnshardError } from '../base/errors.js';
import { headOfPieces } from '../base/head.js';
import { numelOf } from '../base/shape.js';
import type { Inventory, Notice, StoredBits, TensorEntry } from '../checkpoints/inventory.js';
import type { Candidate, Step } from './names.js';
import type { ResolvedOptions } from './plan.js';

/** Modules that have one row per token, by the names that the models of transformers give them. */
const EMBEDDINGS =
  /(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|embed_in|embed_out|shared|lm_head|output_embeddings)\.(?:weight|bias)$/;

/** True for the name of an embedding of tokens, or of the head over them. */
export function isEmbedding(name: string): boolean {
  return EMBEDDINGS.test(name);
}

/**
 * Warns where a tensor has more or fewer rows than the vocabulary, or leaves out the rows beyond it.
 *
 * @throws UnshardError `vocab-unknown` where rows are to be trimmed and config.json names no size.
 */
export function fitVocabulary(candidates: readonly Candidate[], inventory: Inventory, options: ResolvedOptions): Step {
  const size = vocabularySize(inventory);
  if (size === undefined) {
    if (options.trimVocab) throw sizeUnknown(inventory);
    return { kept: candidates, skipped: [], warnings: [] };
  }
  const trimmed = new Map<TensorEntry, TensorEntry>();
  const warnings: Notice[] = [];
  for (const { name, entry } of candidates) {
    const rows = entry.shape[0];
    if (!isEmbedding(name) || rows === undefined || rows === size || trimmed.has(entry)) continue;
    const trims = options.trimVocab && rows > size;
    warnings.push(notice(name, rows, size, trims));
    if (trims) trimmed.set(entry, withRows(entry, size));
  }
  const kept = candidates.map((candidate) => ({
    ...candidate,
    entry: trimmed.get(candidate.entry) ?? candidate.entry,
  }));
  return { kept, skipped: [], warnings };
}

/** `vocab_size` of config.json, or the one of the language model in a composed configuration. */
function vocabularySize({ companions }: Inventory): number | undefined {
  const text = companions.find(({ name }) => name === 'config.json')?.text;
  const config = asRecord(parsed(text));
  const size = config?.['vocab_size'] ?? asRecord(config?.['text_config'])?.['vocab_size'];
  return typeof size === 'number' && Number.isSafeInteger(size) && size > 0 ? size : undefined;
}

/** The first `rows` rows of a tensor. */
function withRows(entry: TensorEntry, rows: number): TensorEntry {
  const shape = [rows, ...entry.shape.slice(1)];
  const cut = <T extends StoredBits>(bits: T): T => ({
    ...bits,
    pieces: headOfPieces(bits.pieces, numelOf(shape) * bytesOf(bits.dtype)),
  });
  const { copy, meanOf, proofs } = entry;
  return {
    ...entry,
    shape,
    stored: cut(entry.stored),
    ...(copy ? { copy: cut(copy) } : {}),
    ...(meanOf ? { meanOf: meanOf.map(cut) } : {}),
    ...(proofs ? { proofs: proofs.map(cut) } : {}),
  };
}

function notice(name: string, rows: number, size: number, trimmed: boolean): Notice {
  if (trimmed) {
    return { code: 'vocab-trimmed', message: `${name} was trimmed from ${rows} rows to the ${size} of config.json.` };
  }
  const what = `${name} has ${rows} rows; vocab_size in config.json is ${size}.`;
  const advice =
    rows > size ? 'The rows beyond it can be trimmed.' : 'Set it right, or from_pretrained will not load the weights.';
  return { code: 'vocab-size', message: `${what} ${advice}` };
}

function parsed(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === 'object' && value !== null ? { ...value } : undefined;
}

function sizeUnknown({ folder }: Inventory): UnshardError {
  return new UnshardError({
    kind: 'usage',
    code: 'vocab-unknown',
    message: `There is no vocab_size to trim to: ${folder} has no config.json beside the checkpoint that names one.`,
    advice: 'Copy config.json of the model there, or do not trim.',
    facts: { file: folder },
  });
}
