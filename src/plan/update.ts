/**
 * What a LoRA adapter adds to each weight: its two matrices, their scale, and which way round they are. Shapes are
 * checked against each other here, so that nothing is left to decide when the values are computed.
 *
 * @module
 */

import { UnshardError } from '../base/errors.js';
import { numelOf } from '../base/shape.js';
import type { TensorEntry } from '../checkpoints/inventory.js';
import { alphas, type LoraConfig } from './adapter-config.js';
import type { Compute } from './plan.js';

/** The tensors of an adapter on one layer, by their names there, such as `lora_A.weight`. */
export type LoraTensors = ReadonlyMap<string, TensorEntry>;

/**
 * The update of each weight.
 *
 * @param layers The adapter's tensors of each layer, by its name.
 * @param weights The weight of each layer.
 * @param prefix What stands before the base model's names, which patterns of the configuration leave out.
 * @throws UnshardError `merge-unsupported`, `adapter-shape` or `adapter-rank`.
 */
export function loraUpdates(
  layers: ReadonlyMap<string, LoraTensors>,
  weights: ReadonlyMap<string, TensorEntry>,
  config: LoraConfig,
  prefix: string,
): Map<TensorEntry, Compute> {
  const pairs = [...layers].flatMap(([layer, tensors]) => {
    const weight = weights.get(layer);
    return weight ? [{ layer, weight, ...matricesOf(layer, tensors) }] : [];
  });
  for (const { weight, a, b } of pairs) for (const entry of [weight, a, b]) refuseStored(entry);
  const isTurned = orientations(pairs, config);
  const alphaOf = alphas(config);
  const updates = new Map<TensorEntry, Compute>();
  for (const { layer, weight, a, b } of pairs) {
    if (numelOf(weight.shape) === 0) continue;
    if (updates.has(weight)) throw mergeRefused(weight.name, 'two tied layers have an adapter each');
    const rank = a.shape[0] ?? 0;
    checkRank(config, layer, rank);
    const alpha = alphaOf(layer.startsWith(prefix) ? layer.slice(prefix.length) : layer);
    updates.set(weight, {
      kind: 'lora',
      a: a.stored,
      b: b.stored,
      rank,
      rows: weight.shape[0] ?? 0,
      columns: numelOf(weight.shape.slice(1)),
      scale: alpha / (config.rslora ? Math.sqrt(rank) : rank),
      transpose: isTurned.get(layer) ?? false,
    });
  }
  return updates;
}

/** An adapter's refusal to be merged. */
export function mergeRefused(what: string, reason: string): UnshardError {
  return new UnshardError({
    kind: 'unsupported',
    code: 'merge-unsupported',
    message: `${what}: ${reason}, which cannot be merged here.`,
    advice: 'Write the adapter alone, and merge it into the base model with PEFT.',
    facts: { tensor: what, reason },
  });
}

/** The matrices of one layer. */
interface Pair {
  readonly layer: string;
  readonly weight: TensorEntry;
  readonly a: TensorEntry;
  readonly b: TensorEntry;
  readonly isEmbedding: boolean;
}

function matricesOf(layer: string, tensors: LoraTensors): Pick<Pair, 'a' | 'b' | 'isEmbedding'> {
  const isEmbedding = tensors.has('lora_embedding_A') || tensors.has('lora_embedding_B');
  const [nameA, nameB] = isEmbedding ? ['lora_embedding_A', 'lora_embedding_B'] : ['lora_A.weight', 'lora_B.weight'];
  const [a, b] = [tensors.get(nameA), tensors.get(nameB)];
  const other = [...tensors.keys()].find((name) => name !== nameA && name !== nameB);
  if (other !== undefined) throw mergeRefused(`${layer}.${other}`, 'the adapter is more than plain LoRA');
  if (!a || !b) throw mergeRefused(layer, `its adapter has no ${a ? nameB : nameA}`);
  return { a, b, isEmbedding };
}

/**
 * True for each layer whose weight has the input dimension first, as in the Conv1D of GPT-2: the product is turned. The
 * shapes tell, but for square weights; for those the configuration does, as long as no shape contradicts it. Without
 * one they are as the other matrices are.
 *
 * @throws UnshardError `adapter-shape`; `merge-unsupported` where nothing tells.
 */
function orientations(pairs: readonly Pair[], config: LoraConfig): Map<string, boolean> {
  const square: string[] = [];
  let said = config.fanInFanOut;
  let contradiction: string | undefined;
  const isTurned = new Map<string, boolean>();
  for (const pair of pairs) {
    const [straight, turned] = [fits(pair, false), fits(pair, true)];
    if (pair.isEmbedding ? !turned : !straight && !turned) throw wrongShape(pair);
    if (pair.isEmbedding) isTurned.set(pair.layer, true);
    else if (straight && turned) square.push(pair.layer);
    else {
      isTurned.set(pair.layer, turned);
      if (pair.weight.shape.length !== 2) continue;
      said ??= turned;
      if (turned !== said) contradiction = pair.layer;
    }
  }
  for (const layer of square) {
    if (contradiction !== undefined)
      throw mergeRefused(layer, `its weight is square, and the shape of ${contradiction} contradicts fan_in_fan_out`);
    isTurned.set(layer, said ?? false);
  }
  return isTurned;
}

/** True where `B x A`, turned or not, has the shape of the weight. The kernel of a convolution belongs to A. */
function fits({ weight, a, b }: Pair, turned: boolean): boolean {
  const [rank, ...inner] = a.shape;
  const [outer, depth, ...ones] = b.shape;
  if (rank === undefined || rank !== depth || numelOf(ones) !== 1) return false;
  const product = turned ? [...inner, outer] : [outer, ...inner];
  if (turned && product.length !== 2) return false;
  return weight.shape.length === product.length && weight.shape.every((size, i) => size === product[i]);
}

/** Weights that are quantised, or that are no single tensor, have no exact sum with anything. */
function refuseStored({ name, stored, meanOf }: TensorEntry): void {
  if (meanOf) throw mergeRefused(name, 'it is a mean of copies');
  if (!['F32', 'F16', 'BF16'].includes(stored.dtype)) throw mergeRefused(name, `it is stored as ${stored.dtype}`);
}

function checkRank(config: LoraConfig, layer: string, found: number): void {
  const ranks = [config.r, ...config.rankPattern.values()];
  if (config.r === undefined || ranks.includes(found)) return;
  const expected = ranks.join(', ');
  throw new UnshardError({
    kind: 'inconsistent',
    code: 'adapter-rank',
    message: `The adapter on ${layer} has rank ${found}; by ${config.file} it should be ${expected}.`,
    advice: 'Take adapter_config.json of this very run, or the rank that the matrices have.',
    facts: { file: config.file, tensor: layer, expected, found },
  });
}

function wrongShape({ layer, weight, a, b }: Pair): UnshardError {
  const text = ({ shape }: TensorEntry) => `[${shape.join(', ')}]`;
  return new UnshardError({
    kind: 'inconsistent',
    code: 'adapter-shape',
    message: `The adapter on ${layer} does not fit its weight of shape ${text(weight)}: A is ${text(a)}, B is ${text(b)}.`,
    advice: 'Write the adapter alone, and merge it into the base model with PEFT.',
    facts: { tensor: layer, expected: text(weight), found: `${text(b)} x ${text(a)}` },
  });
}
