/**
 * What parts leave beside their files while they are under way: a small file for each, with proof of what was written. No
 * locks: a state appears complete, and two runs of one part write the same.
 *
 * @module
 */

import { isUnshardError, UnshardError } from '../../base/errors.js';
import {
  array,
  exactly,
  finite,
  object,
  oneOf,
  orNull,
  type Shape,
  ShapeFault,
  tagged,
  text,
  whole,
} from '../../base/json-shape.js';
import { readBytes } from '../../io/read.js';
import type { OutputTree } from '../../io/types.js';
import { writeBytes } from '../../io/write.js';
import { STATE_FOLDER } from '../../plan/check.js';
import type { AuditRun } from '../audit.js';
import type { ConvertStats } from '../backend.js';
import type { BackendReport } from '../report.js';

/** What is known of one output file. */
export type FileState =
  /** A run of this plan writes it, or was killed when it did. A file of this name that is there may be replaced. */
  { readonly version: 1; readonly status: 'started'; readonly plan: string } | CompleteFile;

/** A file that is complete and, where that was asked for, was verified. */
export interface CompleteFile {
  readonly version: 1;
  readonly status: 'complete';
  /** Hash of the plan. */
  readonly plan: string;
  readonly byteLength: number;
  /** CRC-32 of the file. Present where it was verified: CRC-32s and copies compared, the file read back. */
  readonly crc32?: number;
  /** SHA-256 in hex digits, where it was asked for. */
  readonly sha256?: string;
  /** Of each tensor in the file, in their order there; null for one that is not floating point. */
  readonly stats: readonly (ConvertStats | null)[];
  /** CRC-32s of what was read. */
  readonly audited: readonly AuditRun[];
  readonly backend: Pick<BackendReport, 'name' | 'description' | 'threads' | 'jobsOnCpu'>;
  /** Bytes that were read for it, and the time that it took. */
  readonly bytesRead: number;
  readonly seconds: number;
}

/** What is known of all parts. */
export interface PartsRecord {
  readonly version: 1;
  /** Hash of the plan. */
  readonly plan: string;
  /** Number of parts, as the run that came last was told. */
  readonly count: number;
}

/** A state or record that is longer was not written by Unshard (64 MiB). */
const MAX_STATE_BYTES = 2 ** 26;

const stats: Shape<ConvertStats> = object(
  { overflow: whole, underflow: whole, nan: whole, inf: whole, largest: finite },
  {},
);

const fileState: Shape<FileState> = tagged('status', {
  started: object<Extract<FileState, { status: 'started' }>>(
    { version: exactly(1), status: exactly('started'), plan: text },
    {},
  ),
  complete: object<CompleteFile>(
    {
      version: exactly(1),
      status: exactly('complete'),
      plan: text,
      byteLength: whole,
      stats: array(orNull(stats)),
      audited: array(object<AuditRun>({ range: whole, start: whole, length: whole, crc32: whole }, {})),
      backend: object<CompleteFile['backend']>(
        { name: oneOf({ cpu: 1, gpu: 1 }), description: text, threads: whole, jobsOnCpu: whole },
        {},
      ),
      bytesRead: whole,
      seconds: finite,
    },
    { crc32: whole, sha256: text },
  ),
});

const partsRecord: Shape<PartsRecord> = object({ version: exactly(1), plan: text, count: whole }, {});

/** The states of an output folder, for one plan. */
export class PartsState {
  readonly #output: OutputTree;
  /** Hash of the plan. */
  readonly plan: string;

  constructor(output: OutputTree, plan: string) {
    this.#output = output;
    this.plan = plan;
  }

  /** The state of an output file; undefined where there is none, and where it is none of this plan. */
  async read(path: string): Promise<FileState | undefined> {
    const state = await readJson(this.#output, stateOf(path), fileState);
    return state?.plan === this.plan ? state : undefined;
  }

  /** Replaces the state of an output file. */
  write(path: string, state: FileState): Promise<void> {
    return writeJson(this.#output, stateOf(path), state);
  }

  /** The record of all parts; undefined where none was run. */
  record(): Promise<PartsRecord | undefined> {
    return readJson(this.#output, RECORD, partsRecord);
  }

  /** Takes note of a part of this plan. */
  begin(count: number): Promise<void> {
    return writeJson(this.#output, RECORD, { version: 1, plan: this.plan, count });
  }

  /** Takes back what `begin` noted. */
  async forget(): Promise<void> {
    await this.#output.remove(RECORD);
  }
}

/**
 * Throws where the parts in a folder are those of another plan.
 *
 * @throws UnshardError `parts-of-other-plan` of kind `sink`, with both hashes.
 */
export function assertSamePlan(record: PartsRecord | undefined, plan: string, folder: string): void {
  if (record === undefined || record.plan === plan) return;
  throw new UnshardError({
    kind: 'sink',
    code: 'parts-of-other-plan',
    message: `${folder} holds parts of another plan: their hash is ${record.plan}, that of this plan is ${plan}.`,
    advice: 'Choose another folder; or run the parts of this plan with leave to replace what is there.',
    facts: { file: folder, expected: plan, found: record.plan },
  });
}

/** State files end in .json: no output file can have the name of the record. */
const RECORD = `${STATE_FOLDER}/plan`;

function stateOf(path: string): string {
  return `${STATE_FOLDER}/${path}.json`;
}

/** A file that another run replaces while it is read is read again, so many times in all. */
const READ_TIMES = 10;

/** A value from a file; undefined where there is no file, and where it was not written by `writeJson`. */
async function readJson<T>(
  output: OutputTree,
  path: string,
  shape: Shape<T>,
  times = READ_TIMES,
): Promise<T | undefined> {
  try {
    const source = await output.open(path);
    try {
      if (source.size > MAX_STATE_BYTES) return undefined;
      return shape(JSON.parse(new TextDecoder().decode(await readBytes(source, 0, source.size))));
    } finally {
      await source.close();
    }
  } catch (error) {
    if (error instanceof ShapeFault || error instanceof SyntaxError) return undefined;
    if (!isUnshardError(error, 'source')) throw error;
    if (error.detail.code === 'source-missing') return undefined;
    if (error.detail.code === 'source-changed' && times > 1) return readJson(output, path, shape, times - 1);
    throw error;
  }
}

function writeJson(output: OutputTree, path: string, value: FileState | PartsRecord): Promise<void> {
  return writeBytes(output, path, new TextEncoder().encode(JSON.stringify(value)));
}
