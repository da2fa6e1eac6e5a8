/**
 * The conversion of a ZeRO checkpoint of one data-parallel group by plain loops over whole tensors in memory: a second
 * reading of the format, to compare the product with. It shares only the readers of torch files with it, and refuses
 * nothing: its input must be whole.
 */

import type { DType } from '../../src/base/dtype.js';
import type { PyValue } from '../../src/formats/pickle/values.js';
import { locateStorages, readTorchFile } from '../../src/formats/torch/read.js';
import { TorchTensor } from '../../src/formats/torch/tensor.js';
import { memorySource } from '../../src/io/memory.js';
import { decodeFloats, encodeFloats, type NaiveFloat } from './naive-floats.js';
import { saveSafetensors } from './safetensors.js';

/** A tensor with its bytes in row-major order, and what tells its storage apart. */
interface Whole {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
  readonly place: string;
}

type Dict = ReadonlyMap<string, unknown>;
type Groups = readonly (readonly (readonly [name: string, shape: readonly number[]])[])[];

/** The bytes of `model.safetensors` that a checkpoint gives, floats of 16 bits and more at `dtype`. */
export async function naiveSafetensors(
  files: Readonly<Record<string, Uint8Array>>,
  dtype: NaiveFloat,
): Promise<Uint8Array> {
  const models = await readAll(files, /(?:rank_(\d+)_)?mp_rank_00_model_states\.pt$/);
  const optims = await readAll(files, /zero_pp_rank_(\d+)_mp_rank_00_optim_states\.pt$/);
  const { tensors, aliases } = joined(models, optims);
  const written = [...tensors].map(
    ([name, tensor]) => [name, isFloat(tensor.dtype) ? at(tensor, dtype) : tensor] as const,
  );
  return saveSafetensors(Object.fromEntries(written), { format: 'pt', ...Object.fromEntries(aliases) });
}

/** Every tensor and tied name of a checkpoint. */
function joined(models: readonly Dict[], optims: readonly Dict[]) {
  const model = models[0] ?? new Map();
  const module = dict(model.get('module'));
  const states = optims.map((optim) => dict(optim.get('optimizer_state_dict')));
  const groups = groupsOf(model.get('param_shapes') ?? optims[0]?.get('param_shapes'));
  const isStage3 = states.some((state) => state.has('fp32_flat_groups'));
  const tensors = new Map<string, Whole>();
  const aliases = new Map<string, string>();
  const buffers = model.get('buffer_names') as readonly string[];
  for (const name of buffers) tensors.set(name, module.get(name) as Whole);
  if (isStage3) for (const [name, tensor] of shares(states, groups)) tensors.set(name, tensor);
  else if (states.length > 0) for (const [name, tensor] of flat(states, groups)) tensors.set(name, tensor);
  else
    for (const [name, tensor] of unpartitioned(dict(model.get('optimizer')), module, buffers))
      tensors.set(name, tensor);
  for (const [name, shape] of groupsOf([model.get('frozen_param_shapes') ?? new Map()])[0] ?? []) {
    const parts = models.map((one) => dict(one.get('frozen_param_fragments')).get(name) as Whole);
    tensors.set(name, cut(isStage3 ? parts : parts.slice(0, 1), shape));
  }
  for (const [alias, owner] of models.flatMap((one) => [...dict(one.get('shared_params'))])) {
    // Parameters without elements are listed as tied to each other, since they have one address: none.
    const isThere = isStage3 || ((module.get(alias) as Whole | undefined)?.bytes.length ?? 0) > 0;
    if (isThere && !tensors.has(alias)) aliases.set(alias, String(owner));
  }
  if (isStage3) return { tensors, aliases };
  const owners = new Map([...tensors.keys()].map((name) => [(module.get(name) as Whole).place, name]));
  for (const [name, value] of module) {
    if (tensors.has(name) || aliases.has(name)) continue;
    const tensor = value as Whole;
    const owner = tensor.bytes.length > 0 ? owners.get(tensor.place) : undefined;
    if (owner !== undefined) aliases.set(name, owner);
    else tensors.set(name, tensor);
    if (owner === undefined) owners.set(tensor.place, name);
  }
  return { tensors, aliases };
}

/** Stage 1 and 2: the slices of all ranks end to end, and the parameters one after another in them. */
function* flat(states: readonly Dict[], groups: Groups): Iterable<[string, Whole]> {
  for (const [g, group] of groups.entries()) {
    const slices = states.map((state) => (state.get('single_partition_of_fp32_groups') as Whole[])[g] as Whole);
    const all = cut(slices, [slices.reduce((sum, { shape }) => sum + count(shape), 0)]);
    let at = 0;
    for (const [name, shape] of group) {
      const length = count(shape) * bytesOf(all.dtype);
      yield [name, { ...all, shape, bytes: all.bytes.subarray(at, at + length) }];
      at += length;
    }
  }
}

/** Stage 3: of each parameter every rank has a share of the same size, the last ones filled up. */
function* shares(states: readonly Dict[], groups: Groups): Iterable<[string, Whole]> {
  for (const [g, group] of groups.entries()) {
    let at = 0;
    for (const [name, shape] of group) {
      const parts = states.map((state): Whole => {
        const own = (state.get('fp32_flat_groups') as Whole[])[g] as Whole;
        const share = Math.ceil(count(shape) / states.length) * bytesOf(own.dtype);
        return { ...own, bytes: own.bytes.subarray(at, at + share) };
      });
      yield [name, cut(parts, shape)];
      at += parts[0]?.bytes.length ?? 0;
    }
  }
}

/** Stage 0: masters without names, of the first parameters of the state dict, if there are any. */
function* unpartitioned(state: Dict, module: Dict, buffers: readonly string[]): Iterable<[string, Whole]> {
  const masters = (state.get('fp32_groups_flat') ?? state.get('fp32_groups') ?? []) as (Whole | Whole[])[];
  const parts = masters.flat();
  let rest = Buffer.concat(parts.map(({ bytes }) => bytes));
  for (const [name, value] of module) {
    const { shape, place } = value as Whole;
    if (rest.length === 0) return;
    if (buffers.includes(name)) continue;
    const dtype = parts[0]?.dtype ?? 'F32';
    const length = count(shape) * bytesOf(dtype);
    yield [name, { dtype, shape, bytes: rest.subarray(0, length), place }];
    rest = rest.subarray(length);
  }
}

/** Parts end to end, as many elements as the shape has. */
function cut(parts: readonly Whole[], shape: readonly number[]): Whole {
  const [first] = parts;
  if (!first) throw new Error('a tensor without parts');
  const all = Buffer.concat(parts.map(({ bytes }) => bytes));
  return { ...first, shape, bytes: all.subarray(0, count(shape) * bytesOf(first.dtype)) };
}

function isFloat(dtype: DType): dtype is NaiveFloat {
  return dtype === 'F32' || dtype === 'F16' || dtype === 'BF16';
}

function at(tensor: Whole, to: NaiveFloat): Whole {
  const { dtype, bytes } = tensor;
  if (dtype === to || !isFloat(dtype)) return tensor;
  return { ...tensor, dtype: to, bytes: encodeFloats(to, decodeFloats(dtype, bytes)) };
}

/** The first number in the name of a dtype counts its bits. */
function bytesOf(dtype: DType): number {
  return dtype === 'BOOL' ? 1 : Number(/\d+/.exec(dtype)?.[0]) / 8;
}

function count(shape: readonly number[]): number {
  return shape.reduce((n, size) => n * size, 1);
}

function dict(value: unknown): Dict {
  return value instanceof Map ? value : new Map();
}

function groupsOf(value: unknown): Groups {
  const groups = Array.isArray(value) ? value : [];
  return groups.map((group) => [...dict(group)].map(([name, shape]) => [name, shape as readonly number[]]));
}

/** The objects of the files whose name matches, in the order of the rank in it. */
async function readAll(files: Readonly<Record<string, Uint8Array>>, name: RegExp): Promise<Dict[]> {
  const found = Object.entries(files).flatMap(([path, bytes]) => {
    const match = name.exec(path);
    return match ? [{ rank: Number(match[1] ?? 0), path, bytes }] : [];
  });
  found.sort((a, b) => a.rank - b.rank);
  return Promise.all(found.map(({ path, bytes }) => readObject(path, bytes)));
}

/** The object of a file with every tensor read to the end. */
async function readObject(path: string, bytes: Uint8Array): Promise<Dict> {
  const file = await readTorchFile(memorySource(path, bytes));
  const resolve = async (value: PyValue): Promise<unknown> => {
    if (Array.isArray(value)) return Promise.all(value.map(resolve));
    if (value instanceof TorchTensor) return elements(value);
    if (!(value instanceof Map)) return value;
    const entries = [...value].map(async ([key, one]) => [key, await resolve(one)] as const);
    return new Map(await Promise.all(entries));
  };
  const elements = async ({ dtype, shape, stride, offset, storage }: TorchTensor): Promise<Whole> => {
    const size = bytesOf(dtype);
    const record = (await locateStorages(file, [storage])).get(storage);
    const data = bytes.subarray(record?.offset ?? 0);
    const place = `${storage.key} ${offset} ${shape}`;
    const items = Array.from({ length: count(shape) }, (_, i) => {
      const at = shape.reduce(
        (sum, n, d) => sum + (Math.floor(i / count(shape.slice(d + 1))) % n) * (stride[d] ?? 0),
        offset,
      );
      return data.subarray(at * size, (at + 1) * size);
    });
    return { dtype, shape, bytes: Buffer.concat(items), place };
  };
  return dict(await resolve(file.value));
}
