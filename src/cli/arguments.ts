/**
 * The command line's arguments as data.
 *
 * @module
 */

import { parseArgs } from 'node:util';
import { UnshardError } from '../base/errors.js';
import { parseSize } from '../base/size.js';
import type { InspectOptions, PlanOptions, TpMerge, TpRule } from '../node.js';

/** What the user asked for. */
export type Command =
  | { readonly kind: 'help' }
  | { readonly kind: 'version' }
  | ({ readonly kind: 'inspect'; readonly checkpoint: string } & Common)
  | ({
      readonly kind: 'verify';
      readonly checkpoint: string;
      readonly weights: string;
      readonly plan: PlanOptions;
    } & Common)
  | ({
      readonly kind: 'convert';
      readonly checkpoint: string;
      readonly out: string;
      readonly plan: PlanOptions;
      readonly overwrite: boolean;
      readonly verify: boolean;
      readonly dryRun: boolean;
      /** Take the SHA-256 of what is written. */
      readonly sha256: boolean;
      /** Threads that fill tiles; undefined leaves it to the machine. */
      readonly threads: number | undefined;
    } & Common);

/** Options that every command takes. */
export interface Common {
  /** Further folders with shards of the same checkpoint. */
  readonly also: readonly string[];
  readonly tag: string | undefined;
  /** Take what can still be had where files are missing or damaged. */
  readonly partial: boolean;
  /** How a model that is cut by tensor parallelism is read, and which files are done without. */
  readonly reading: Pick<InspectOptions, 'tpRules' | 'tpRank' | 'lost'>;
  readonly json: boolean;
  readonly quiet: boolean;
}

/** The text of `--help`. */
export const HELP = `Usage: unshard CHECKPOINT OUT [options]   write the weights of a DeepSpeed checkpoint
       unshard CHECKPOINT                 show what is in it
       unshard verify CHECKPOINT WEIGHTS  compare weights, written by anyone, with it; options that choose and name
                                          tensors, or merge an adapter, say how they were written

CHECKPOINT is the folder that holds global_stepN, or global_stepN itself.
OUT is a folder; it is made when it is missing. WEIGHTS is a .safetensors or .bin file, an index of several, or a folder.

  --dtype fp32|fp16|bf16|keep     precision of floating-point tensors (default fp32)
  --dtype-for PATTERN=DTYPE       precision of tensors whose name matches; * stands for any characters; may be repeated
  --format safetensors|bin        model.safetensors or pytorch_model.bin (default safetensors)
  --max-shard-size SIZE           split the weights: 500MB, 5GB (default: one file)
  --adapter-only                  of a LoRA run, write adapter_model.safetensors as PEFT does, beside adapter_config.json
  --merge-adapter                 of a LoRA run, write the base model with the adapter merged into it
  --adapter-name NAME             the adapter to write or merge, where there are several
  --lora-alpha NUMBER             where adapter_config.json is missing, its lora_alpha, to merge the adapter by
  --lora-r NUMBER                 beside it, the rank that every layer must have (default: what its matrices show)
  --lora-rslora                   beside it, use_rslora: alpha is divided by the root of the rank
  --include PATTERN               write only tensors whose name in the output matches; may be repeated
  --exclude PATTERN               leave out tensors whose name in the output matches; may be repeated
  --exclude-frozen                leave out parameters that were not trained
  --trainable-only                write only parameters that were trained: no buffers either
  --strip-prefix PREFIX           take a prefix such as module. off the names
  --trim-vocab                    leave out the rows of embedding and head beyond vocab_size of config.json
  --duplicate-tied                write a full copy under each tied name
  --overflow error|inf|clamp      what to do with a value that the dtype cannot hold (default error)
  --tp-rule PATTERN=HOW           join the tensor-parallel shards of these names along dimension 0 or 1, as replicated, or
                                  as average; may be repeated (default: as the checkpoint says)
  --tp-rank RANK                  take the shards of one tensor-parallel rank alone
  --also FOLDER                   another folder with shards of the checkpoint, from another disk or node; may be repeated
  --tag TAG                       checkpoint to read (default: the one that the file "latest" names)
  --partial                       where files of ranks are missing or damaged, write what the others hold; what was in them
                                  is taken from the copies in the model file (ZeRO-1 and ZeRO-2), or left out and listed
  --ignore-file PATH              do without this file, as if it were lost: its path or name, * stands for any characters;
                                  for damage that shows in the run only; may be repeated; implies --partial
  --overwrite                     replace files that are there already
  --no-verify                     do not compare recorded CRC-32s, nor masters with their copies; do not read back
  --sha256                        take the SHA-256 of every file that is written, for the report
  --threads N                     threads that read and convert; 0 for none (default: as many as there are cores, at most 4)
  --dry-run                       show what would be written, and stop
  --json                          print the inventory, plan or report as JSON
  --quiet                         print no progress
  --version, --help
`;

/**
 * Parses the arguments after the program's name.
 *
 * @throws UnshardError of kind `usage`.
 */
export function parseCommand(args: readonly string[]): Command {
  const { values, positionals } = parse(args);
  if (values.help) return { kind: 'help' };
  if (values.version) return { kind: 'version' };
  // A folder of that name can be given as ./verify.
  const verifies = positionals[0] === 'verify';
  const [checkpoint, out, ...more] = verifies ? positionals.slice(1) : positionals;
  if (checkpoint === undefined) throw usage('arguments-missing', 'CHECKPOINT is missing.');
  if (more.length > 0) throw usage('arguments-many', `There is one argument too many: ${more[0]}.`);
  const common: Common = {
    also: values.also ?? [],
    tag: values.tag,
    partial: values.partial,
    reading: readingOf(values),
    json: values.json,
    quiet: values.quiet,
  };
  if (verifies) {
    if (out === undefined) throw usage('arguments-missing', 'WEIGHTS is missing.');
    return { kind: 'verify', checkpoint, weights: out, plan: planOptions(values), ...common };
  }
  if (out === undefined) return { kind: 'inspect', checkpoint, ...common };
  return {
    kind: 'convert',
    checkpoint,
    out,
    plan: planOptions(values),
    overwrite: values.overwrite,
    verify: !values['no-verify'],
    dryRun: values['dry-run'],
    sha256: values.sha256,
    threads: threadsOf(values),
    ...common,
  };
}

function shardSize(text: string): number {
  const size = parseSize(text);
  if (size !== undefined) return size;
  throw usage('size-bad', `--max-shard-size must be a number with KB, MB, GB or TB; it is ${text}.`);
}

type Values = ReturnType<typeof parse>['values'];

function planOptions(values: Values): PlanOptions {
  const given = (option: keyof Values, key: keyof PlanOptions) =>
    values[option] === undefined ? {} : { [key]: values[option] };
  const size = values['max-shard-size'];
  return {
    ...outputKind(values),
    ...given('adapter-name', 'adapterName'),
    ...loraOptions(values),
    ...given('dtype', 'dtype'),
    ...given('format', 'format'),
    ...given('overflow', 'overflow'),
    ...(size === undefined ? {} : { maxShardSize: shardSize(size) }),
    ...given('include', 'include'),
    ...given('exclude', 'exclude'),
    ...given('strip-prefix', 'stripPrefix'),
    excludeFrozen: values['exclude-frozen'],
    trainableOnly: values['trainable-only'],
    trimVocab: values['trim-vocab'],
    duplicateTied: values['duplicate-tied'],
    dtypeFor: (values['dtype-for'] ?? []).map(parseDtypeFor),
  };
}

function loraOptions(values: Values): Pick<PlanOptions, 'lora'> {
  const [alpha, r, rslora] = [values['lora-alpha'], values['lora-r'], values['lora-rslora']];
  if (alpha === undefined && r === undefined && !rslora) return {};
  if (alpha === undefined) throw usage('options-contradict', '--lora-r and --lora-rslora go with --lora-alpha.');
  return { lora: { alpha: Number(alpha), ...(r === undefined ? {} : { r: Number(r) }), rslora } };
}

function readingOf(values: Values): Common['reading'] {
  const [rules, rank, lost] = [values['tp-rule'], values['tp-rank'], values['ignore-file']];
  if (rank !== undefined && !/^\d{1,6}$/.test(rank)) {
    throw usage('tp-rank-bad', `--tp-rank must be the number of a rank, from 0; it is ${rank}.`);
  }
  return {
    ...(rules === undefined ? {} : { tpRules: rules.map(parseTpRule) }),
    ...(rank === undefined ? {} : { tpRank: Number(rank) }),
    ...(lost === undefined ? {} : { lost }),
  };
}

function threadsOf({ threads }: Values): number | undefined {
  if (threads === undefined) return undefined;
  if (/^\d{1,2}$/.test(threads)) return Number(threads);
  throw usage('threads-bad', `--threads must be a number from 0 to 99; it is ${threads}.`);
}

function parseTpRule(text: string): TpRule {
  const at = text.lastIndexOf('=');
  const merge = mergeOf(text.slice(at + 1));
  if (at < 1 || merge === undefined) {
    throw usage('tp-rule-bad', `--tp-rule must be PATTERN=0, 1, replicated or average; it is ${text}.`);
  }
  return { pattern: text.slice(0, at), merge };
}

function mergeOf(text: string): TpMerge | undefined {
  if (text === 'replicated' || text === 'average') return text;
  return /^\d$/.test(text) ? Number(text) : undefined;
}

function outputKind(values: Values): Pick<PlanOptions, 'output'> {
  const [adapter, merged] = [values['adapter-only'], values['merge-adapter']];
  if (adapter && merged) throw usage('options-contradict', '--adapter-only and --merge-adapter exclude each other.');
  if (adapter) return { output: 'adapter' };
  return merged ? { output: 'merged' } : {};
}

function parseDtypeFor(text: string): NonNullable<PlanOptions['dtypeFor']>[number] {
  const at = text.lastIndexOf('=');
  const dtype = text.slice(at + 1);
  if (at < 1 || !isPrecision(dtype)) {
    throw usage('dtype-for-bad', `--dtype-for must be PATTERN=fp32, fp16, bf16 or keep; it is ${text}.`);
  }
  return { pattern: text.slice(0, at), dtype };
}

function isPrecision(text: string): text is NonNullable<PlanOptions['dtype']> {
  return ['fp32', 'fp16', 'bf16', 'keep'].includes(text);
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        dtype: { type: 'string' },
        'dtype-for': { type: 'string', multiple: true },
        format: { type: 'string' },
        'max-shard-size': { type: 'string' },
        'adapter-only': { type: 'boolean', default: false },
        'merge-adapter': { type: 'boolean', default: false },
        'adapter-name': { type: 'string' },
        'lora-alpha': { type: 'string' },
        'lora-r': { type: 'string' },
        'lora-rslora': { type: 'boolean', default: false },
        include: { type: 'string', multiple: true },
        exclude: { type: 'string', multiple: true },
        'exclude-frozen': { type: 'boolean', default: false },
        'trainable-only': { type: 'boolean', default: false },
        'strip-prefix': { type: 'string' },
        'trim-vocab': { type: 'boolean', default: false },
        'duplicate-tied': { type: 'boolean', default: false },
        overflow: { type: 'string' },
        'tp-rule': { type: 'string', multiple: true },
        'tp-rank': { type: 'string' },
        also: { type: 'string', multiple: true },
        partial: { type: 'boolean', default: false },
        'ignore-file': { type: 'string', multiple: true },
        tag: { type: 'string' },
        overwrite: { type: 'boolean', default: false },
        sha256: { type: 'boolean', default: false },
        threads: { type: 'string' },
        'no-verify': { type: 'boolean', default: false },
        'dry-run': { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        quiet: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false, short: 'h' },
        version: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    throw usage('option-unknown', error instanceof Error ? error.message : String(error));
  }
}

function usage(code: string, message: string): UnshardError {
  return new UnshardError({ kind: 'usage', code, message, advice: 'See unshard --help.', facts: {} });
}
