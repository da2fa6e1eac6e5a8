/**
 * What the files of all ranks must say alike: a shard of another step or run says something else.
 *
 * @module
 */

import { mapBounded } from '../../base/concurrent.js';
import { bytesOf, isFloat } from '../../base/dtype.js';
import type { PyValue } from '../../formats/pickle/values.js';
import { locateStorages } from '../../formats/torch/read.js';
import { TorchTensor } from '../../formats/torch/tensor.js';
import { readBytes } from '../../io/read.js';
import { convertBytes } from '../../numeric/convert.js';
import type { CheckReport } from '../inventory.js';
import type { Draft } from './draft.js';
import { dig } from './fields.js';
import { configDiffers, disagree } from './problems.js';
import { distinctModels, type ModelStates, type OptimStates, type Shard } from './states.js';

/** Files whose step is read at once. */
const STEP_LANES = 8;

/** Entries of two configurations that are compared; an honest one has some hundred. */
const MAX_CONFIG_ENTRIES = 10_000;

/** Compares the files of one model-parallel rank. Those of other ranks, and what a field does not say, are left out. */
export async function checkAgreement(
  draft: Draft,
  models: readonly ModelStates[],
  optims: readonly OptimStates[],
  signal: AbortSignal | undefined,
): Promise<CheckReport> {
  const compared: string[] = [];
  const compare = (what: string, files: readonly Said[]): void => {
    const said = files.filter(({ value }) => value !== undefined);
    const [first] = said;
    if (!first || said.length < 2) return;
    compared.push(what);
    const odd = said.find(({ value }) => value !== first.value);
    if (odd) draft.problems.push(disagree(what, first.file, first.value ?? '', odd.file, odd.value ?? ''));
  };
  // That each kind agrees with itself is seen to where the sets are chosen.
  const firsts = [...models.slice(0, 1), ...optims.slice(0, 1)];
  compare(
    'ds_version',
    saidBy(firsts, ({ deepspeedVersion }) => deepspeedVersion),
  );
  const steps = await mapBounded(optims, STEP_LANES, ({ shard, state }) => stepOf(shard, state, signal));
  compare(
    'optimizer step',
    optims.map(({ shard }, i) => ({ file: shard.path, value: steps[i] })),
  );
  compare(
    'learning rate',
    saidBy(optims, ({ state }) => learningRates(state)),
  );
  compare(
    'loss scale',
    saidBy(optims, ({ state }) => numberIn(dig(state, 'loss_scaler', 'cur_scale'))),
  );
  compare(
    'loss scaler iteration',
    saidBy(optims, ({ state }) => numberIn(dig(state, 'loss_scaler', 'cur_iter'))),
  );
  if (compareShapes(draft, models)) compared.push('param_shapes');
  if (compareConfigs(draft, [...models, ...optims])) compared.push('ds_config');
  const files = `Model files: ${models.length}, optimizer files: ${optims.length}`;
  return {
    id: 'ranks-agree',
    status: compared.length > 0 ? 'passed' : 'not-checkable',
    detail:
      compared.length > 0
        ? `${files}. They agree in ${compared.join(', ')}.`
        : `${files}. They have nothing in common that could be compared.`,
  };
}

/** What a file says, as text that can be compared. */
interface Said {
  readonly file: string;
  readonly value: string | undefined;
}

function saidBy<States extends ModelStates | OptimStates>(
  files: readonly States[],
  value: (states: States) => string | undefined,
): Said[] {
  return files.map((states) => ({ file: states.shard.path, value: value(states) }));
}

function numberIn(value: PyValue | undefined): string | undefined {
  return typeof value === 'number' || typeof value === 'bigint' ? String(value) : undefined;
}

/** State of the optimizer inside the ZeRO optimizer. With `elastic_checkpoint` it is a list, of one entry for each group. */
function innerState(state: PyValue | undefined): PyValue | undefined {
  const inner = dig(state, 'base_optimizer_state') ?? dig(state, 'optimizer_state_dict');
  return Array.isArray(inner) ? inner[0] : inner;
}

function learningRates(state: PyValue | undefined): string | undefined {
  const groups = dig(innerState(state), 'param_groups');
  const rates = Array.isArray(groups) ? groups.map((group) => numberIn(dig(group, 'lr'))) : [];
  return rates.length > 0 && !rates.includes(undefined) ? rates.join() : undefined;
}

/** The number of steps that the optimizer has made: in the state of its first parameter, or of its first group. */
async function stepOf(
  shard: Shard,
  state: PyValue | undefined,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const inner = innerState(state);
  const states = dig(inner, 'state');
  const first = states instanceof Map ? [...states.values()].find((entry) => dig(entry, 'step') !== undefined) : inner;
  const step = dig(first, 'step') ?? dig(inner, 'param_groups', 0, 'step');
  return step instanceof TorchTensor ? scalarOf(shard, step, signal) : numberIn(step);
}

/** The value of a tensor of one element. */
async function scalarOf(
  shard: Shard,
  tensor: TorchTensor,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const { dtype, numel, storage, offset } = tensor;
  if (numel !== 1 || !isFloat(dtype)) return undefined;
  const record = (await locateStorages(shard.file, [storage], signal)).get(storage);
  if (!record) return undefined;
  const size = bytesOf(dtype);
  const bytes = await readBytes(shard.file.source, record.offset + offset * size, size, signal);
  return String(new DataView(new Uint8Array(convertBytes(bytes, dtype, 'F32')).buffer).getFloat32(0, true));
}

/** The model files of stage 3 all list the parameters. Gives whether there was anything to compare. */
function compareShapes(draft: Draft, models: readonly ModelStates[]): boolean {
  const listing = models.filter(({ paramShapes }) => paramShapes !== undefined);
  const [first, ...others] = distinctModels(listing);
  if (!first || listing.length < 2) return false;
  const expected = listed(first);
  for (const other of others) {
    const found = listed(other);
    const length = Math.max(expected.length, found.length);
    for (let i = 0; i < length; i++) {
      if (isAlike(expected[i], found[i])) continue;
      const [should, is] = [listedText(expected[i]), listedText(found[i])];
      draft.problems.push(disagree('param_shapes', first.shard.path, should, other.shard.path, is));
      return true;
    }
  }
  return true;
}

/** A parameter and its group. */
interface Listed {
  readonly group: number;
  readonly name: string;
  readonly shape: readonly number[];
}

function listed({ paramShapes = [] }: ModelStates): Listed[] {
  return paramShapes.flatMap((shapes, group) => shapes.map(([name, shape]) => ({ group, name, shape })));
}

/** Compared without making text of it: a thousand ranks may list ten thousand parameters each. */
function isAlike(a: Listed | undefined, b: Listed | undefined): boolean {
  if (!a || !b || a.group !== b.group || a.name !== b.name || a.shape.length !== b.shape.length) return false;
  return a.shape.every((size, i) => size === b.shape[i]);
}

function listedText(item: Listed | undefined): string {
  return item ? `${item.name} [${item.shape.join(', ')}] in group ${item.group}` : 'nothing';
}

/** Gives whether there was anything to compare. */
function compareConfigs(draft: Draft, files: readonly (ModelStates | OptimStates)[]): boolean {
  const [first, ...others] = files.filter(({ config }) => config instanceof Map);
  if (!first || others.length === 0) return false;
  for (const other of others) {
    const key = differingKey(first.config, other.config);
    if (key === undefined) continue;
    draft.problems.push(configDiffers(first.shard.path, other.shard.path, key));
    break;
  }
  return true;
}

/**
 * The first key under which two configurations differ. Texts are not compared, as they may be paths of one node; nor are
 * they shown, as they may be secrets.
 */
function differingKey(a: PyValue | undefined, b: PyValue | undefined): string | undefined {
  const open: { key: string; a: PyValue | undefined; b: PyValue | undefined }[] = [{ key: '', a, b }];
  for (let visited = 0; visited < MAX_CONFIG_ENTRIES; visited++) {
    const next = open.pop();
    if (!next) return undefined;
    const [left, right] = [next.a, next.b];
    if (left === right) continue;
    if (typeof left === 'string' || typeof right === 'string') continue;
    const keys = keysOf(left) ?? keysOf(right);
    if (!keys) {
      if (!Object.is(left, right) && (isPlain(left) || isPlain(right))) return next.key;
      continue;
    }
    for (const key of new Set([...keys, ...(keysOf(right) ?? [])])) {
      open.push({ key: next.key === '' ? String(key) : `${next.key}.${key}`, a: dig(left, key), b: dig(right, key) });
    }
  }
  return undefined;
}

function keysOf(value: PyValue | undefined): (string | number)[] | undefined {
  if (Array.isArray(value)) return [...value.keys()];
  if (!(value instanceof Map)) return undefined;
  return [...value.keys()].filter((key) => typeof key === 'string' || typeof key === 'number');
}

function isPlain(value: PyValue | undefined): boolean {
  return value === null || typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint';
}
