/**
 * The command line's arguments as data.
 *
 * @module
 */

import { parseArgs } from 'node:util';
import { type PlanOptions, UnshardError } from '../node.js';

/** What the user asked for. */
export type Command =
  | { readonly kind: 'help' }
  | { readonly kind: 'version' }
  | ({ readonly kind: 'inspect'; readonly checkpoint: string } & Common)
  | ({
      readonly kind: 'convert';
      readonly checkpoint: string;
      readonly out: string;
      readonly plan: PlanOptions;
      readonly overwrite: boolean;
      readonly verify: boolean;
      readonly dryRun: boolean;
    } & Common);

/** Options that every command takes. */
export interface Common {
  readonly tag: string | undefined;
  readonly json: boolean;
  readonly quiet: boolean;
}

/** The text of `--help`. */
export const HELP = `Usage: unshard CHECKPOINT OUT [options]   write the weights of a DeepSpeed checkpoint
       unshard CHECKPOINT                 show what is in it

CHECKPOINT is the folder that holds global_stepN, or global_stepN itself.
OUT is a folder; it is made when it is missing.

  --dtype fp32|fp16|bf16|keep     precision of floating-point tensors (default fp32)
  --dtype-for PATTERN=DTYPE       precision of tensors whose name matches; * stands for any characters; may be repeated
  --format safetensors|bin        model.safetensors or pytorch_model.bin (default safetensors)
  --max-shard-size SIZE           split the weights: 500MB, 5GB (default: one file)
  --exclude-frozen                leave out parameters that were not trained
  --duplicate-tied                write a full copy under each tied name
  --overflow error|inf|clamp      what to do with a value that the dtype cannot hold (default error)
  --tag TAG                       checkpoint to read (default: the one that the file "latest" names)
  --overwrite                     replace files that are there already
  --no-verify                     do not compare the CRC-32s that the checkpoint's files record
  --dry-run                       show what would be written, and stop
  --json                          print the inventory, plan or report as JSON
  --quiet                         print no progress
  --version, --help
`;

const DECIMAL_UNITS: Readonly<Record<string, number>> = { '': 1, K: 1e3, M: 1e6, G: 1e9, T: 1e12 };

/**
 * Parses the arguments after the program's name.
 *
 * @throws UnshardError of kind `usage`.
 */
export function parseCommand(args: readonly string[]): Command {
  const { values, positionals } = parse(args);
  if (values.help) return { kind: 'help' };
  if (values.version) return { kind: 'version' };
  const [checkpoint, out, ...more] = positionals;
  if (checkpoint === undefined) throw usage('arguments-missing', 'CHECKPOINT is missing.');
  if (more.length > 0) throw usage('arguments-many', `There is one argument too many: ${more[0]}.`);
  const common: Common = { tag: values.tag, json: values.json, quiet: values.quiet };
  if (out === undefined) return { kind: 'inspect', checkpoint, ...common };
  return {
    kind: 'convert',
    checkpoint,
    out,
    plan: planOptions(values),
    overwrite: values.overwrite,
    verify: !values['no-verify'],
    dryRun: values['dry-run'],
    ...common,
  };
}

/** A size such as `5GB`, in bytes. Units are decimal, as on the Hub. */
export function parseSize(text: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([KMGT]?)B?$/i.exec(text.trim());
  const unit = DECIMAL_UNITS[match?.[2]?.toUpperCase() ?? '?'];
  if (match?.[1] === undefined || unit === undefined) {
    throw usage('size-bad', `--max-shard-size must be a number with KB, MB, GB or TB; it is ${text}.`);
  }
  return Math.floor(Number(match[1]) * unit);
}

type Values = ReturnType<typeof parse>['values'];

function planOptions(values: Values): PlanOptions {
  const given = (option: keyof Values, key: keyof PlanOptions) =>
    values[option] === undefined ? {} : { [key]: values[option] };
  const size = values['max-shard-size'];
  return {
    ...given('dtype', 'dtype'),
    ...given('format', 'format'),
    ...given('overflow', 'overflow'),
    ...(size === undefined ? {} : { maxShardSize: parseSize(size) }),
    excludeFrozen: values['exclude-frozen'],
    duplicateTied: values['duplicate-tied'],
    dtypeFor: (values['dtype-for'] ?? []).map(parseDtypeFor),
  };
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
        'exclude-frozen': { type: 'boolean', default: false },
        'duplicate-tied': { type: 'boolean', default: false },
        overflow: { type: 'string' },
        tag: { type: 'string' },
        overwrite: { type: 'boolean', default: false },
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
