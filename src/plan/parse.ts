/**
 * A plan from JSON. It may come from a stranger: nothing in it is taken for granted, and nothing in it leads out of the
 * folders that it is run with.
 *
 * @module
 */

import { DTYPES } from '../base/dtype.js';
import type { Extent, Partition, Piece, RankCut, Repeat } from '../base/extent.js';
import {
  array,
  byField,
  dictionary,
  exactly,
  finite,
  flag,
  object,
  oneOf,
  type Shape,
  ShapeFault,
  tagged,
  text,
  whole,
} from '../base/json-shape.js';
import type {
  CheckReport,
  Notice,
  Proof,
  RecordedCrc,
  SkippedTensor,
  SourceFile,
  StoredBits,
} from '../checkpoints/inventory.js';
import { checkPlan, invalidPlan } from './check.js';
import {
  type Compute,
  type LoraOptions,
  type OutputFile,
  type OutputPart,
  type Plan,
  type PlannedTensor,
  type PlannedZipRecord,
  type PlanTotals,
  type ResolvedOptions,
  TARGETS,
  type ZipTail,
} from './plan.js';
import { totalsOf } from './totals.js';

const dtype = oneOf(DTYPES);
const flip = oneOf({ neg: 1, conj: 1, 'neg-conj': 1 });
const precision = oneOf(TARGETS);
const texts = array(text);

const repeat: Shape<Repeat> = object({ count: whole, from: whole, to: whole }, {});
const extent: Shape<Extent> = object(
  { source: whole, offset: whole, length: whole, at: whole },
  { repeat: array(repeat) },
);
const rankCut: Shape<RankCut> = object({ over: whole, offset: whole, share: whole, length: whole, at: whole }, {});
const piece: Shape<Piece> = byField('over', rankCut, extent);
const partition: Shape<Partition> = object({ source: whole, offset: whole }, {});
const stored: Shape<StoredBits> = object({ dtype, pieces: array(piece) }, { flip });
const proof: Shape<Proof> = object({ dtype, pieces: array(piece), check: text }, { flip });

const compute: Shape<Compute> = tagged('kind', {
  lora: object<Extract<Compute, { kind: 'lora' }>>(
    {
      kind: exactly('lora'),
      a: stored,
      b: stored,
      rank: whole,
      rows: whole,
      columns: whole,
      scale: finite,
      transpose: flag,
    },
    {},
  ),
  mean: object<Extract<Compute, { kind: 'mean' }>>({ kind: exactly('mean'), of: array(stored) }, {}),
});

const tensor: Shape<PlannedTensor> = object(
  {
    name: text,
    shape: array(whole),
    origin: oneOf<PlannedTensor['origin']>({ master: 1, copy: 1, module: 1, frozen: 1, buffer: 1 }),
    from: dtype,
    to: dtype,
    fromCopy: flag,
    pieces: array(piece),
  },
  { flip, compute, proofs: array(proof) },
);

const part: Shape<OutputPart> = tagged('kind', {
  literal: object<Extract<OutputPart, { kind: 'literal' }>>(
    { kind: exactly('literal'), at: whole, length: whole, base64: text },
    {},
  ),
  tensor: object<Extract<OutputPart, { kind: 'tensor' }>>(
    { kind: exactly('tensor'), at: whole, length: whole, tensor: whole },
    {},
  ),
  copy: object<Extract<OutputPart, { kind: 'copy' }>>(
    { kind: exactly('copy'), at: whole, length: whole, source: whole },
    {},
  ),
});

const zipRecord: Shape<PlannedZipRecord> = object(
  { name: text, header: whole, at: whole, length: whole },
  { crc32: whole },
);
const zip: Shape<ZipTail> = object({ records: array(zipRecord) }, {});
const file: Shape<OutputFile> = object(
  { path: text, byteLength: whole, parts: array(part) },
  { afterOthers: exactly(true), zip },
);

const lora: Shape<LoraOptions> = object({ alpha: finite }, { r: whole, rslora: flag });

const options: Shape<ResolvedOptions> = object(
  {
    output: oneOf({ model: 1, adapter: 1, merged: 1 }),
    dtype: precision,
    format: oneOf({ safetensors: 1, bin: 1 }),
    excludeFrozen: flag,
    trainableOnly: flag,
    include: texts,
    exclude: texts,
    trimVocab: flag,
    duplicateTied: flag,
    overflow: oneOf({ error: 1, inf: 1, clamp: 1 }),
    dtypeFor: array(object({ pattern: text, dtype: precision }, {})),
  },
  { adapterName: text, lora, stripPrefix: text, maxShardSize: whole },
);

const shape: Shape<Plan> = object(
  {
    version: exactly(1),
    options,
    sources: array(object<SourceFile>({ path: text, size: whole, modified: finite }, {})),
    partitions: array(array(partition)),
    crcs: array(object<RecordedCrc>({ source: whole, offset: whole, length: whole, crc32: whole }, {})),
    files: array(file),
    tensors: array(tensor),
    aliases: dictionary(text),
    skipped: array(object<SkippedTensor>({ name: text, reason: text }, {})),
    warnings: array(object<Notice>({ code: text, message: text }, { tensors: texts })),
    checks: array(
      object<CheckReport>({ id: text, status: oneOf({ passed: 1, failed: 1, 'not-checkable': 1 }), detail: text }, {}),
    ),
    totals: object<PlanTotals>({ tensors: whole, elements: whole, outputBytes: whole, inputBytes: whole }, {}),
  },
  {},
);

/**
 * A plan from what `JSON.parse` made of it. The value is checked and not copied.
 *
 * @throws UnshardError `plan-invalid` of kind `usage`, with the place in the plan.
 */
export function parsePlan(value: unknown): Plan {
  try {
    const plan = shape(value);
    checkPlan(plan);
    const totals = totalsOf(plan.tensors, plan.files);
    for (const key of ['tensors', 'elements', 'outputBytes', 'inputBytes'] as const) {
      if (plan.totals[key] !== totals[key]) throw invalidPlan(`totals.${key}`, totals[key], plan.totals[key]);
    }
    return plan;
  } catch (error) {
    if (error instanceof ShapeFault) throw invalidPlan(`plan${error.where}`, error.expected, error.found);
    throw error;
  }
}
