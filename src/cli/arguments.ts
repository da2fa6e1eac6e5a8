/**
 * The command line's arguments as data.
 *
 * @module
 */

import { parseArgs } from 'node:util';
import { UnshardError } from '../base/errors.js';
import { parseSize } from '../base/size.js';
import type { InspectOptions, Part, PlanOptions, TpMerge, TpRule } from '../node.js';

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
    } & Common)
  | ({
      readonly kind: 'plan';
      readonly checkpoint: string;
      readonly plan: PlanOptions;
      /** The file to write; undefined shows the plan only. */
      readonly file: string | undefined;
      readonly overwrite: boolean;
    } & Common)
  | ({
      readonly kind: 'run';
      readonly part: Part | undefined;
      readonly recheck: boolean;
      readonly threads: number | undefined;
    } & Planned)
  | ({ readonly kind: 'finish' } & Planned);

/** Options of the commands that follow a plan. */
export interface Planned {
  /** The file of the plan. */
  readonly file: string;
  readonly out: string;
  /** Where the checkpoint is: its folder and further ones; undefined for where it was when it was planned. */
  readonly folders: readonly [string, ...string[]] | undefined;
  readonly overwrite: boolean;
  readonly verify: boolean;
  readonly sha256: boolean;
  readonly json: boolean;
  readonly quiet: boolean;
}

/** Options of the commands that read a checkpoint. */
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

/**
 * Parses the arguments after the program's name.
 *
 * @throws UnshardError of kind `usage`.
 */
export function parseCommand(args: readonly string[]): Command {
  const { values, positionals, tokens } = parse(args);
  if (values.help) return { kind: 'help' };
  if (values.version) return { kind: 'version' };
  const [first = ''] = positionals;
  // A folder of such a name can be given as ./verify.
  const verb = isVerb(first) ? first : undefined;
  const names = verb ? positionals.slice(1) : positionals;
  const command = verb ?? (names.length === 1 ? 'inspect' : 'convert');
  refuseForeign(
    command,
    tokens.flatMap((token) => (token.kind === 'option' ? [token.name] : [])),
  );
  if (verb === 'run' || verb === 'finish') return planned(verb, values, names);
  const [checkpoint, out] = argumentsOf(names, NAMES[verb ?? 'convert']);
  const { overwrite, partial } = values;
  const common: Common = {
    also: values.also ?? [],
    tag: values.tag,
    partial,
    reading: readingOf(values),
    json: values.json,
    quiet: values.quiet,
  };
  if (verb === 'verify') {
    if (out === undefined) throw usage('arguments-missing', 'WEIGHTS is missing.');
    return { kind: 'verify', checkpoint, weights: out, plan: planOptions(values), ...common };
  }
  if (verb === 'plan') {
    return { kind: 'plan', checkpoint, plan: planOptions(values), file: values.output, overwrite, ...common };
  }
  if (out === undefined) return { kind: 'inspect', checkpoint, ...common };
  return {
    kind: 'convert',
    checkpoint,
    out,
    plan: planOptions(values),
    overwrite,
    verify: !values['no-verify'],
    dryRun: values['dry-run'],
    sha256: values.sha256,
    threads: threadsOf(values),
    ...common,
  };
}

/** The arguments of each command. */
const NAMES = {
  convert: ['CHECKPOINT', 'OUT'],
  verify: ['CHECKPOINT', 'WEIGHTS'],
  plan: ['CHECKPOINT'],
} as const;

/** Options that only some commands have, and those commands. */
const SOME: ReadonlyMap<string, readonly string[]> = new Map([
  ['output', ['plan']],
  ['part', ['run']],
  ['recheck', ['run']],
  ['checkpoint', ['run', 'finish']],
]);

/** All that the commands which follow a plan leave open. */
const WITH_PLAN = new Set(['checkpoint', 'also', 'overwrite', 'no-verify', 'sha256', 'json', 'quiet']);

/** What says how to convert, and not what: `plan` converts nothing. */
const WITH_RUN = new Set(['no-verify', 'sha256', 'threads', 'dry-run']);

/** All that says how to write. */
const WRITING = new Set([
  ...WITH_RUN,
  ...['dtype', 'dtype-for', 'format', 'max-shard-size', 'duplicate-tied', 'overflow', 'overwrite'],
]);

/** All that says which tensors to write, and under which names: `verify` takes it too. */
const CHOOSING = new Set([
  ...['adapter-only', 'merge-adapter', 'adapter-name', 'lora-alpha', 'lora-r', 'lora-rslora'],
  ...['include', 'exclude', 'exclude-frozen', 'trainable-only', 'strip-prefix', 'trim-vocab'],
]);

type Verb = 'verify' | 'plan' | 'run' | 'finish';

function isVerb(text: string): text is Verb {
  return ['verify', 'plan', 'run', 'finish'].includes(text);
}

/** An option that a command would pass over is a mistake. */
function refuseForeign(command: Verb | 'inspect' | 'convert', options: readonly string[]): void {
  for (const option of options) {
    const owners = SOME.get(option);
    const name = option === 'output' ? '-o' : `--${option}`;
    if (owners && !owners.includes(command)) {
      throw usage('option-foreign', `${name} is an option of unshard ${owners.join(' and ')}.`);
    }
    if (command === 'inspect' && (WRITING.has(option) || CHOOSING.has(option))) {
      throw usage('arguments-missing', `OUT is missing: ${name} says what to write, or how.`);
    }
    if (command === 'verify' && WRITING.has(option)) {
      const why = 'nothing is written, and each tensor is compared in the dtype of its file';
      throw usage('option-foreign', `${name} is no option of unshard verify: ${why}.`);
    }
    if (command === 'plan' && WITH_RUN.has(option)) {
      throw usage('option-foreign', `${name} is no option of unshard plan: it is for the runs that follow.`);
    }
    if (command !== 'run' && command !== 'finish') continue;
    const isOpen = WITH_PLAN.has(option) || (command === 'run' && (owners || option === 'threads'));
    if (!isOpen)
      throw usage('option-foreign', `${name} is no option of unshard ${command}: the plan has all that is written.`);
  }
}

function planned(kind: 'run' | 'finish', values: Values, names: readonly string[]): Command {
  const [file, out] = argumentsOf(names, ['PLAN', 'OUT']);
  if (out === undefined) throw usage('arguments-missing', 'OUT is missing.');
  const { checkpoint, also = [], overwrite, recheck, sha256, json, quiet } = values;
  if (checkpoint === undefined && also.length > 0) {
    throw usage('options-contradict', '--also goes with --checkpoint: the plan has its folders itself.');
  }
  const folders = checkpoint === undefined ? undefined : ([checkpoint, ...also] as const);
  const common = { file, out, folders, overwrite, verify: !values['no-verify'], sha256, json, quiet };
  if (kind === 'finish') return { kind, ...common };
  const part = values.part === undefined ? undefined : parsePart(values.part);
  if (recheck && !part) throw usage('options-contradict', '--recheck goes with --part.');
  return { kind, part, recheck, threads: threadsOf(values), ...common };
}

/** The first argument, which must be there, and the second. `names` are those that a command takes. */
function argumentsOf(found: readonly string[], names: readonly string[]): [first: string, second: string | undefined] {
  // Mostly a variable of the shell that is not set: an empty path would be the folder that the user happens to be in.
  const empty = names[found.indexOf('')];
  if (empty !== undefined) throw usage('arguments-missing', `${empty} is empty.`);
  const [first, second] = found;
  if (first === undefined) throw usage('arguments-missing', `${names[0]} is missing.`);
  const extra = found[names.length];
  if (extra !== undefined) throw usage('arguments-many', `There is one argument too many: ${extra}.`);
  return [first, second];
}

function parsePart(text: string): Part {
  const [, number = '0', count = '0'] = /^(\d{1,6})\/(\d{1,6})$/.exec(text) ?? [];
  if (Number(number) >= 1 && Number(number) <= Number(count))
    return { index: Number(number) - 1, count: Number(count) };
  throw usage('part-bad', `--part must be I/N, from 1/N to N/N; it is ${text}.`);
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
  if (!values['merge-adapter']) throw usage('options-contradict', '--lora-alpha goes with --merge-adapter.');
  return {
    lora: { alpha: numberOf('lora-alpha', alpha), ...(r === undefined ? {} : { r: numberOf('lora-r', r) }), rslora },
  };
}

function numberOf(option: 'lora-alpha' | 'lora-r', text: string): number {
  const value = Number(text);
  if (!Number.isNaN(value)) return value;
  throw usage('number-bad', `--${option} must be a number; it is ${text}.`);
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

/** Every option and what it takes. */
export const OPTIONS = {
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
  output: { type: 'string', short: 'o' },
  part: { type: 'string' },
  recheck: { type: 'boolean', default: false },
  checkpoint: { type: 'string' },
  'no-verify': { type: 'boolean', default: false },
  'dry-run': { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  quiet: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false, short: 'h' },
  version: { type: 'boolean', default: false },
} as const;

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      tokens: true,
      options: OPTIONS,
    });
  } catch (error) {
    if (!(error instanceof TypeError && 'code' in error)) throw error;
    const isUnknown = error.code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION';
    const [, option] = /^Option '(--?[\w-]+)' argument is ambiguous/.exec(error.message) ?? [];
    if (option) {
      const joined = option.startsWith('--') ? 'after =' : 'at once';
      throw usage('option-value-bad', `${option} has no value; one that begins with a dash follows ${joined}.`);
    }
    // What follows the first sentence is advice for options that take no value.
    const [message = ''] = error.message.split(/\.? To specify|\n/);
    throw usage(isUnknown ? 'option-unknown' : 'option-value-bad', `${message.replace(/\.$/, '')}.`);
  }
}

function usage(code: string, message: string): UnshardError {
  return new UnshardError({ kind: 'usage', code, message, advice: 'See unshard --help.', facts: {} });
}
