/**
 * From an inventory and options to a plan. Pure and synchronous: every header and offset is known when it returns.
 *
 * @module
 */

import { toBase64 } from '../base/base64.js';
import { UnshardError } from '../base/errors.js';
import { counted } from '../base/words.js';
import { problemError } from '../checkpoints/inspect.js';
import { blockingProblems, type Inventory } from '../checkpoints/inventory.js';
import { layoutSafetensors } from '../formats/safetensors/write.js';
import { layoutTorchFile } from '../formats/torch/write.js';
import { companionsOf } from './companions.js';
import { editedConfig } from './config.js';
import { usedCrcs } from './crcs.js';
import { resolveOptions } from './options.js';
import type { OutputFile, OutputPart, Plan, PlannedTensor, PlanOptions, ResolvedOptions } from './plan.js';
import { outputBytes, type Selection, selectTensors } from './select.js';
import { fileNames, indexName, indexText, type ShardFile, splitIntoShards } from './shards.js';
import { totalsOf } from './totals.js';

/**
 * Plans a conversion.
 *
 * @throws UnshardError of kind `usage` for a bad option; the first problem of the inventory that stands in the way of
 * everything, or of a tensor that would be written;
 * `nothing-to-write` where every tensor is left out; `name-bad` for a name that the format cannot hold.
 */
export function plan(inventory: Inventory, options: PlanOptions = {}): Plan {
  const resolved = resolveOptions(options);
  const problem = problemError(blockingProblems(inventory));
  if (problem) throw problem;
  const selection = selectTensors(inventory, resolved);
  const { tensors } = selection;
  if (tensors.length === 0) throw nothingToWrite(inventory);
  for (const name of [...tensors.map((tensor) => tensor.name), ...Object.keys(selection.aliases)]) checkName(name);
  // The weights first: what is left of a run that was killed looks like no model, and the same run can begin again.
  const { weights, index } = weightFiles(selection, resolved);
  const files = [...weights, ...companionFiles(inventory, resolved, selection), ...index];
  return {
    version: 1,
    options: resolved,
    sources: inventory.sources,
    partitions: inventory.partitions,
    crcs: usedCrcs(inventory.crcs, inventory.partitions, tensors),
    files,
    tensors,
    aliases: selection.aliases,
    skipped: selection.skipped,
    warnings: [...inventory.warnings, ...selection.warnings],
    checks: inventory.checks,
    totals: totalsOf(tensors, files),
  };
}

/** The weight files, and their index where there are several. */
function weightFiles(
  selection: Selection,
  options: ResolvedOptions,
): Readonly<Record<'weights' | 'index', readonly OutputFile[]>> {
  const { tensors, aliases } = selection;
  const sizes = tensors.map(outputBytes);
  const names = fileNames(options);
  const shards = splitIntoShards(sizes, names, options.maxShardSize);
  const single = shards.length === 1;
  const weights = shards.map((shard) =>
    options.format === 'safetensors'
      ? safetensorsFile(shard, tensors, single ? aliases : {})
      : binFile(shard, tensors, aliases),
  );
  if (single) return { weights, index: [] };
  const named = shards.map((shard) => ({ path: shard.path, names: namesIn(shard, selection, options) }));
  const text = indexText(named, sum(sizes), options.format === 'safetensors' ? aliases : {});
  return { weights, index: [indexFile(indexName(names), text)] };
}

function safetensorsFile(
  shard: ShardFile,
  tensors: readonly PlannedTensor[],
  aliases: Readonly<Record<string, string>>,
): OutputFile {
  const inFile = shard.tensors.map((index) => ({ index, tensor: at(tensors, index) }));
  const described = inFile.map(({ tensor }) => ({ name: tensor.name, dtype: tensor.to, shape: tensor.shape }));
  // `format` is what from_pretrained checks, so no tied name may take its place.
  const layout = layoutSafetensors(described, { ...aliases, format: 'pt' });
  const parts = layout.order.map((position): OutputPart => {
    const { index, tensor } = at(inFile, position);
    return { kind: 'tensor', at: at(layout.offsets, position), length: outputBytes(tensor), tensor: index };
  });
  return { path: shard.path, byteLength: layout.byteLength, parts: [literal(0, layout.header), ...withBytes(parts)] };
}

/** A torch zip file. Tied names are entries of the same storage. */
function binFile(
  shard: ShardFile,
  tensors: readonly PlannedTensor[],
  aliases: Readonly<Record<string, string>>,
): OutputFile {
  const inFile = shard.tensors.map((index) => at(tensors, index));
  const storages = inFile.map((tensor) => ({ dtype: tensor.to, byteLength: outputBytes(tensor) }));
  const entries = inFile.map((tensor, storage) => ({
    name: tensor.name,
    dtype: tensor.to,
    shape: tensor.shape,
    storage,
  }));
  const tied = Object.entries(aliases).flatMap(([alias, owner]) => {
    const entry = entries.find((candidate) => candidate.name === owner);
    return entry ? [{ ...entry, name: alias }] : [];
  });
  const rootName = shard.path.replace(/\.bin$/, '');
  const layout = layoutTorchFile([...entries, ...tied], storages, rootName);
  const parts = layout.storages.map(
    (offset, position): OutputPart => ({
      kind: 'tensor',
      at: offset,
      length: at(storages, position).byteLength,
      tensor: at(shard.tensors, position),
    }),
  );
  const literals = layout.literals.map((part) => literal(part.at, part.bytes));
  const all = [...literals, ...withBytes(parts)].toSorted((a, b) => a.at - b.at);
  return { path: shard.path, byteLength: layout.byteLength, parts: all, zip: { records: layout.records } };
}

/** Names in a shard in the order of its index: the tied names of a `.bin` come after their owners. */
function namesIn(shard: ShardFile, { tensors, aliases }: Selection, options: ResolvedOptions): string[] {
  const names = shard.tensors.map((index) => at(tensors, index).name);
  if (options.format === 'safetensors') return names;
  const owned = new Set(names);
  return [...names, ...Object.keys(aliases).filter((alias) => owned.has(aliases[alias] ?? ''))];
}

function companionFiles(inventory: Inventory, options: ResolvedOptions, { unties }: Selection): OutputFile[] {
  return companionsOf(inventory, options).map(({ source, name, text }) => {
    const edited = name === 'config.json' && text !== undefined ? editedConfig(text, options.dtype, unties) : text;
    if (edited !== undefined && edited !== text) return textFile(name, edited);
    const { size } = at(inventory.sources, source);
    const parts: OutputPart[] = size === 0 ? [] : [{ kind: 'copy', at: 0, length: size, source }];
    return { path: name, byteLength: size, parts };
  });
}

/** The index names files, so it may appear only when they are all there. */
function indexFile(path: string, text: string): OutputFile {
  return { ...textFile(path, text), afterOthers: true };
}

function textFile(path: string, text: string): OutputFile {
  const bytes = new TextEncoder().encode(text);
  return { path, byteLength: bytes.length, parts: [literal(0, bytes)] };
}

function literal(offset: number, bytes: Uint8Array): OutputPart {
  return { kind: 'literal', at: offset, length: bytes.length, base64: toBase64(bytes) };
}

function withBytes(parts: readonly OutputPart[]): OutputPart[] {
  return parts.filter((part) => part.length > 0);
}

/** safetensors keeps its metadata under `__metadata__`, and JSON in UTF-8 cannot hold half a surrogate pair. */
function checkName(name: string): void {
  if (name !== '__metadata__' && name !== '' && name.isWellFormed()) return;
  throw new UnshardError({
    kind: 'unsupported',
    code: 'name-bad',
    message: `A tensor is named ${JSON.stringify(name)}, which the output formats cannot hold.`,
    advice: 'Leave the tensor out.',
    facts: { tensor: JSON.stringify(name) },
  });
}

function nothingToWrite(inventory: Inventory): UnshardError {
  return new UnshardError({
    kind: 'usage',
    code: 'nothing-to-write',
    message: `None of the ${counted(inventory.tensors.length, 'tensor')} of ${inventory.folder} would be written.`,
    advice: 'Change the options that leave tensors out.',
    facts: { file: inventory.folder, found: inventory.tensors.length },
  });
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function at<T>(items: readonly T[], index: number): T {
  const item = items[index];
  if (item === undefined) throw new RangeError(`index ${index} of ${items.length}`);
  return item;
}
