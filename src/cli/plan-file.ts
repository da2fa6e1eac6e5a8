/**
 * The file of a plan: the plan, its hash, and where the checkpoint was. It may come from a stranger.
 *
 * @module
 */

import { readFile, stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { messageOf } from '../base/errors.js';
import { array, exactly, object, type Shape, ShapeFault, text } from '../base/json-shape.js';
import { errnoOf } from '../io/node-failures.js';
import { writeBytes } from '../io/write.js';
import { folderOutput, hashPlan, type Plan, parsePlan, UnshardError } from '../node.js';

/** What the file says. */
export interface PlanFile {
  /** The plan's hash. A file whose plan has another one was changed. */
  readonly hash: string;
  /** Absolute paths of the folders that the checkpoint was read from. */
  readonly folders: readonly string[];
  readonly plan: Plan;
}

/** A file that is larger is no plan (256 MiB): one of 50,000 tensors on 1,024 ranks has less than 100 MB. */
const MAX_BYTES = 2 ** 28;

/** The plan itself is checked by `parsePlan`. */
const shape: Shape<{ unshard: 'plan'; version: 1; hash: string; folders: readonly string[]; plan: unknown }> = object(
  { unshard: exactly('plan'), version: exactly(1), hash: text, folders: array(text), plan: (value) => value },
  {},
);

/** The text of the file of a plan. */
export function planFileText({ hash, folders, plan }: PlanFile): string {
  return `${JSON.stringify({ unshard: 'plan', version: 1, hash, folders, plan })}\n`;
}

/**
 * Writes the file of a plan; it appears complete.
 *
 * @throws UnshardError of kind `sink`: `output-exists` where there is a file already, unless it may be replaced.
 */
export async function writePlanFile(path: string, content: string, overwrite: boolean): Promise<void> {
  const output = folderOutput(dirname(path));
  const name = basename(path);
  if (!overwrite && (await output.has(name))) {
    throw new UnshardError({
      kind: 'sink',
      code: 'output-exists',
      message: `${path} is there already.`,
      advice: 'Choose another name, or ask to replace it.',
      facts: { file: path },
    });
  }
  await writeBytes(output, name, new TextEncoder().encode(content));
}

/**
 * Reads the file of a plan.
 *
 * @throws UnshardError of kind `usage`: `plan-file-bad` where it is no such file or cannot be read, `plan-invalid`,
 * `plan-changed` where its hash is not that of its plan.
 */
export async function readPlanFile(path: string): Promise<PlanFile> {
  const { hash, folders, plan } = await readShape(path);
  const checked = parsePlan(plan);
  const found = await hashPlan(checked);
  if (found === hash) return { hash, folders, plan: checked };
  throw new UnshardError({
    kind: 'usage',
    code: 'plan-changed',
    message: `${path} was changed: it says that the hash of its plan is ${hash}, and it is ${found}.`,
    advice: 'Make the plan again from the checkpoint.',
    facts: { file: path, expected: hash, found },
  });
}

async function readShape(path: string) {
  try {
    const { size } = await stat(path);
    if (size > MAX_BYTES) throw planFileBad(path, `it has ${size} bytes, and at most ${MAX_BYTES} are read`);
    return shape(JSON.parse(await readFile(path, 'utf8')));
  } catch (error) {
    if (error instanceof UnshardError) throw error;
    if (error instanceof ShapeFault) throw planFileBad(path, error.message);
    throw planFileBad(path, errnoOf(error) === 'ENOENT' ? 'there is no such file' : messageOf(error));
  }
}

function planFileBad(path: string, reason: string): UnshardError {
  return new UnshardError({
    kind: 'usage',
    code: 'plan-file-bad',
    message: `${path} is not read as a plan: ${reason}.`,
    advice: 'Name the file that unshard plan has written.',
    facts: { file: path, found: reason },
  });
}
