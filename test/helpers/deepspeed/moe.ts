/** Writes checkpoints of models with experts as DeepSpeed does, in memory. */

import { bytesOf } from '../../../src/base/dtype.js';
import type { NaiveFloat } from '../naive-floats.js';
import { type Held, whole } from './cuts.js';
import { cutFlat } from './flat.js';
import { type Py, type PyMap, PyOrdered, TensorView, tensorOf } from './python.js';
import {
  copyOf,
  denseGroup,
  frozenShapes,
  type HeldGroup,
  optimRoots,
  type RankFiles,
  shapesOf,
} from './rank-files.js';
import { type ExpectedTensor, type NamedBuffer, type Param, since, sizeOf } from './spec.js';
import { saveZip } from './torch-save.js';

/** A layer with experts. */
export interface MoeLayer {
  readonly prefix: string;
  readonly experts: number;
  /** Ranks that the experts are shared out over. Divides their number, and that of the ranks. */
  readonly ep: number;
  /** Parameters of one expert, by their names in it. Of AutoEP: `w1`, `w2` and `w3`. */
  readonly params: readonly Param[];
  /** Parameters of one expert that were not trained. */
  readonly frozen?: readonly Param[];
  /** Buffers of one expert; those of expert `i` count up from `i`. */
  readonly buffers?: readonly NamedBuffer[];
}

/** A run with experts at the moment when it saves. */
export interface MoeSpec {
  readonly version: string;
  /** 0: without ZeRO. */
  readonly stage: 0 | 1 | 2;
  readonly modelDtype: NaiveFloat;
  readonly ranks: number;
  readonly dense: readonly Param[];
  readonly layers: readonly MoeLayer[];
  /** `data`: with `use_data_before_expert_parallelism`. Default `experts`. */
  readonly first?: 'experts' | 'data';
  /** Elements after which a group of expert parameters is split. */
  readonly groupSize?: number;
  readonly bf16Optimizer?: boolean;
  /** Weights are copies in versions that saved views too. */
  readonly copies?: boolean;
  /** AutoEP: one tensor over all experts for each weight. */
  readonly fused?: boolean;
  /** Changes a file before it is written. */
  readonly edit?: (name: string, root: PyMap) => void;
}

/** A checkpoint and what must come out of it. */
export interface WrittenMoe {
  readonly files: Record<string, Uint8Array>;
  readonly expected: ReadonlyMap<string, ExpectedTensor>;
  readonly aliases: Readonly<Record<string, string>>;
}

/** Folder of the files. */
export const MOE_FOLDER = 'global_step7';

/** Writes a checkpoint. */
export function writeMoe(spec: MoeSpec): WrittenMoe {
  const files: Record<string, Uint8Array> = {};
  const add = (name: string, root: PyMap) => {
    spec.edit?.(name, root);
    files[`${MOE_FOLDER}/${name}`] = saveZip(root).bytes;
  };
  if (spec.stage > 0) for (const [name, root] of optimRoots(rankFiles(spec))) add(name, root);
  for (const [name, root] of expertRoots(spec)) add(name, root);
  for (const [name, root] of expertOptims(spec)) add(name, root);
  add('mp_rank_00_model_states.pt', modelRoot(spec));
  return { files, expected: expected(spec), aliases: {} };
}

/** Name of a parameter of an expert, counted over the whole model or on a rank. */
function nameOf({ fused = false }: MoeSpec, { prefix }: MoeLayer, expert: number, name: string): string {
  return fused ? `${prefix}.${name}.${expert}` : `${prefix}.deepspeed_moe.experts.deepspeed_experts.${expert}.${name}`;
}

/**
 * Gives the weight of a parameter, for one file. Before 0.7.4 it was saved as the view into a flat buffer that it is; later,
 * as a copy.
 */
function weightsOf(spec: MoeSpec): (held: Held) => TensorView {
  const isView = spec.stage > 0 && !spec.copies && !since(spec.version, '0.7.4');
  const views = isView ? flatViews(spec) : new Map<string, TensorView>();
  return (held) => views.get(held.name) ?? copyOf(held, spec.modelDtype);
}

/** The trained parameters in the 16-bit flat buffers, by their names in the whole model. */
function flatViews(spec: MoeSpec): Map<string, TensorView> {
  const views = new Map<string, TensorView>();
  const size = bytesOf(spec.modelDtype);
  for (const { ranks, heldBy } of rankFiles(spec).groups) {
    const first = Array.from({ length: spec.ranks }, (_, rank) => heldBy(rank)).filter(
      ({ partition }) => partition === 0,
    );
    for (const [expertRank, { params }] of first.entries()) {
      const total = params.reduce((sum, param) => sum + sizeOf(param), 0);
      const bytes = new Uint8Array(cutFlat(total, ranks, spec.version, spec.bf16Optimizer).padded * size);
      bytes.set(Buffer.concat(params.map((held) => copyOf(held, spec.modelDtype).storage.bytes)));
      const storage = { dtype: spec.modelDtype, bytes, role: 'copy' } as const;
      let at = 0;
      for (const param of params) {
        views.set(globalName(spec, param.name, expertRank), new TensorView(storage, param.shape, at));
        at += sizeOf(param);
      }
    }
  }
  return views;
}

/** The name in the whole model of what an expert-parallel rank calls `name`. */
function globalName({ layers }: MoeSpec, name: string, expertRank: number): string {
  const layer = layers.find(({ prefix }) => name.startsWith(`${prefix}.deepspeed_moe.experts.`));
  const own = layer ? layer.experts / layer.ep : 0;
  return name.replace(
    /(deepspeed_experts\.)(\d+)\./,
    (_, start: string, local: string) => `${start}${expertRank * own + Number(local)}.`,
  );
}

function rankFiles(spec: MoeSpec): RankFiles {
  const { version, stage, modelDtype, ranks, bf16Optimizer = false } = spec;
  const groups = [denseGroup(spec.dense.map(whole), ranks), ...expertGroups(spec)];
  return { version, stage: stage === 0 ? 1 : stage, modelDtype, mp: 0, ranks, groups, bf16Optimizer };
}

/** One group for all layers of a degree of expert parallelism, or several where it is large. */
function expertGroups(spec: MoeSpec): HeldGroup[] {
  const { ranks, layers, first = 'experts', groupSize = Number.POSITIVE_INFINITY } = spec;
  return [...new Set(layers.map(({ ep }) => ep))].flatMap((ep) => {
    const count = ranks / ep;
    const expertRank = (rank: number) => (first === 'experts' ? rank % ep : Math.floor(rank / count));
    const partition = (rank: number) => (first === 'experts' ? Math.floor(rank / ep) : rank % count);
    const of = layers.filter((layer) => layer.ep === ep);
    const chunks = chunked(heldBy(spec, of, 0), groupSize);
    return chunks.map(([start, end]) => ({
      name: `ep_size_${ep}`,
      ranks: count,
      heldBy: (rank: number) => ({
        params: heldBy(spec, of, expertRank(rank)).slice(start, end),
        partition: partition(rank),
      }),
    }));
  });
}

/** The trained expert parameters of an expert-parallel rank, with experts counted from 0. */
function heldBy(spec: MoeSpec, layers: readonly MoeLayer[], rank: number): Held[] {
  return layers.flatMap((layer) => {
    const own = layer.experts / layer.ep;
    const locals = Array.from({ length: own }, (_, local) => local);
    const master = (local: number, { name, shape }: Param) =>
      whole({ name: nameOf(spec, layer, rank * own + local, name), shape }).master;
    if (spec.fused) {
      return layer.params.map((param): Held => {
        const parts = locals.map((local) => master(local, param));
        const bytes = Uint8Array.from(Buffer.concat(parts));
        return { name: `${layer.prefix}.${param.name}`, shape: [own, ...param.shape], master: bytes };
      });
    }
    return locals.flatMap((local) =>
      layer.params.map((param): Held => {
        return { name: nameOf(spec, layer, local, param.name), shape: param.shape, master: master(local, param) };
      }),
    );
  });
}

function chunked(params: readonly Held[], limit: number): [number, number][] {
  const chunks: [number, number][] = [];
  let [start, elements] = [0, 0];
  for (const [i, param] of params.entries()) {
    if (i > start && elements + sizeOf(param) > limit) {
      chunks.push([start, i]);
      [start, elements] = [i, 0];
    }
    elements += sizeOf(param);
  }
  return [...chunks, [start, params.length]];
}

function expertRoots(spec: MoeSpec): Map<string, PyMap> {
  const roots = new Map<string, PyMap>();
  const isOld = !since(spec.version, '0.6.0');
  const weightOf = weightsOf(spec);
  for (const [moeLayer, layer] of spec.layers.entries()) {
    for (let expert = 0; expert < layer.experts; expert++) {
      const file = `${isOld ? '' : `layer_${moeLayer}_`}expert_${expert}_mp_rank_00_model_states.pt`;
      const root = roots.get(file) ?? new Map<string, Py>();
      for (const { name, shape } of [...layer.params, ...(layer.frozen ?? [])]) {
        const held = whole({ name: nameOf(spec, layer, expert, name), shape });
        root.set(held.name, weightOf(held));
      }
      for (const buffer of layer.buffers ?? []) {
        root.set(nameOf(spec, layer, expert, buffer.name), bufferTensor(buffer, expert));
      }
      roots.set(file, root);
    }
  }
  return roots;
}

/** Without ZeRO, the masters; with it, older versions write files without anything in them. */
function expertOptims(spec: MoeSpec): Map<string, PyMap> {
  const ep = Math.max(...spec.layers.map((layer) => layer.ep));
  if (spec.stage > 0 && since(spec.version, '0.19.3')) return new Map();
  const roots = Array.from({ length: ep }, (_, rank): [string, PyMap] => [
    `expp_rank_${rank}_mp_rank_00_optim_states.pt`,
    new Map([['optimizer', spec.stage === 0 ? wholeState(spec, rank) : null]]),
  ]);
  return new Map(roots);
}

/** The optimizer of an expert-parallel rank without ZeRO. */
function wholeState(spec: MoeSpec, rank: number): PyMap {
  const flat = [spec.dense.map(whole), heldBy(spec, spec.layers, rank)].map((params) => {
    const bytes = Uint8Array.from(Buffer.concat(params.map(({ master }) => master)));
    return tensorOf('F32', [bytes.length / 4], bytes, 'weights');
  });
  return new Map<string, Py>([['fp32_groups_flat', flat]]);
}

function modelRoot(spec: MoeSpec): PyMap {
  const { version, layers, dense, modelDtype, ranks } = spec;
  const weightOf = weightsOf(spec);
  const module: PyMap = new Map(dense.map((param) => [param.name, weightOf(whole(param))]));
  const counts = layers.map(({ experts }) => experts);
  const root: PyMap = new Map<string, Py>([
    ['module', new PyOrdered(module)],
    ['dp_world_size', ranks],
    ['mp_world_size', 1],
    ['num_experts', since(version, '0.6.0') ? counts : (counts[0] ?? 0)],
    ['global_steps', 7],
  ]);
  // Models with experts had a short form of the model file until 0.19.2.
  if (!since(version, '0.19.3')) return root;
  const names = layers.flatMap((layer) =>
    Array.from({ length: layer.experts / layer.ep }, (_, local) =>
      (layer.buffers ?? []).map(({ name }) => nameOf(spec, layer, local, name)),
    ).flat(),
  );
  root.set('buffer_names', names);
  root.set('param_shapes', spec.stage === 0 ? null : shapesOf(rankFiles(spec)));
  const frozen = layers.flatMap((layer) =>
    Array.from({ length: layer.experts / layer.ep }, (_, local) =>
      (layer.frozen ?? []).map(({ name, shape }) => whole({ name: nameOf(spec, layer, local, name), shape })),
    ).flat(),
  );
  const fragments: PyMap = new Map(frozen.map((held) => [held.name, copyOf(held, modelDtype)]));
  root.set('frozen_param_shapes', spec.stage === 2 ? frozenShapes(frozen) : null);
  root.set('frozen_param_fragments', spec.stage === 2 ? new PyOrdered(fragments) : null);
  root.set('shared_params', spec.stage === 0 ? null : new Map());
  if (spec.stage === 0) root.set('optimizer', wholeState(spec, 0));
  root.set('ds_config', new Map([['zero_optimization', new Map([['stage', spec.stage]])]]));
  root.set('ds_version', version);
  if (spec.fused) root.set('ds_autoep_layers', layers.map(autoEp));
  return root;
}

function autoEp({ prefix, experts, ep }: MoeLayer): PyMap {
  return new Map<string, Py>([
    ['expert_key_prefix', prefix],
    ['num_experts', experts],
    ['num_local_experts', experts / ep],
    ['ep_size', ep],
    ['checkpoint_format', 'per_expert_files'],
  ]);
}

function bufferTensor({ dtype, shape, bytes }: NamedBuffer, expert: number) {
  return tensorOf(
    dtype,
    shape,
    bytes.map((byte) => byte ^ expert),
    'other',
  );
}

function expected(spec: MoeSpec): Map<string, ExpectedTensor> {
  const tensors = new Map<string, ExpectedTensor>();
  const master = ({ name, shape, master: bytes }: Held) => tensors.set(name, { dtype: 'F32', shape, bytes });
  for (const param of spec.dense) master(whole(param));
  for (const layer of spec.layers) {
    const ids = Array.from({ length: layer.experts }, (_, expert) => expert);
    const all = (name: string, shape: readonly number[]) =>
      ids.map((expert) => whole({ name: nameOf(spec, layer, expert, name), shape }));
    for (const { name, shape } of layer.params) {
      const parts = all(name, shape);
      if (!spec.fused) for (const part of parts) master(part);
      else {
        const bytes = Uint8Array.from(Buffer.concat(parts.map((part) => part.master)));
        master({ name: `${layer.prefix}.${name}`, shape: [layer.experts, ...shape], master: bytes });
      }
    }
    for (const { name, shape } of layer.frozen ?? []) {
      for (const part of all(name, shape)) {
        const { bytes } = copyOf(part, spec.modelDtype).storage;
        tensors.set(part.name, { dtype: spec.modelDtype, shape, bytes });
      }
    }
    for (const buffer of layer.buffers ?? []) {
      for (const expert of ids) {
        const { bytes } = bufferTensor(buffer, expert).storage;
        tensors.set(nameOf(spec, layer, expert, buffer.name), { dtype: buffer.dtype, shape: buffer.shape, bytes });
      }
    }
  }
  return tensors;
}
