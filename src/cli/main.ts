#!/usr/bin/env node
/**
 * The command line: `unshard CHECKPOINT OUT`.
 *
 * @module
 */

import { realpath, stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { version } from '../../package.json';
import {
  calibrate,
  cpuBackend,
  type FileTree,
  folderOutput,
  inspect,
  isAbort,
  isUnshardError,
  mergeTrees,
  openFolder,
  openThreads,
  plan,
  type RunProgress,
  run,
  UnshardError,
  type VerifyProgress,
  verify,
} from '../node.js';
import { type Command, type Common, HELP, parseCommand } from './arguments.js';
import { EXIT_CANCELLED, EXIT_CODES, EXIT_INTERNAL } from './exit.js';
import { inventoryText, planText, reportText, verifyText } from './print.js';
import { progressLine, runStep } from './progress.js';

const args = process.argv.slice(2);
const cancel = new AbortController();
process.once('SIGINT', () => cancel.abort());
process.once('SIGTERM', () => cancel.abort());

try {
  const command = parseCommand(args);
  if (command.kind === 'help') process.stdout.write(HELP);
  else if (command.kind === 'version') process.stdout.write(`${version}\n`);
  else if (command.kind === 'inspect') await inspectCheckpoint(command);
  else if (command.kind === 'verify') await verifyWeights(command);
  else await convert(command);
} catch (error) {
  process.exitCode = tellError(error, args.includes('--json'));
}

async function inspectCheckpoint(command: Extract<Command, { kind: 'inspect' }>): Promise<void> {
  const { tree, tag } = await openCheckpoint(command);
  const { partial, reading } = command;
  const inventory = await inspect(tree, { signal: cancel.signal, partial, ...tag, ...reading });
  process.stdout.write(command.json ? `${JSON.stringify(inventory)}\n` : inventoryText(inventory));
  const [problem] = inventory.problems;
  if (problem) process.exitCode = EXIT_CODES[problem.kind];
}

async function convert(command: Extract<Command, { kind: 'convert' }>): Promise<void> {
  for (const folder of [command.checkpoint, ...command.also]) await refuseInput(folder, command.out);
  const { tree, tag } = await openCheckpoint(command);
  const { signal } = cancel;
  const inventory = await inspect(tree, { signal, partial: command.partial, ...tag, ...command.reading });
  const made = plan(inventory, command.plan);
  if (command.dryRun) {
    process.stdout.write(command.json ? `${JSON.stringify(made)}\n` : planText(made));
    return;
  }
  const progress = progressLine(process.stderr, !command.quiet && !command.json);
  const output = folderOutput(command.out);
  const threads = openThreads(made, command.threads);
  try {
    const { overwrite, verify } = command;
    const onProgress = (step: RunProgress) => progress.update(step.written, step.total, runStep(step));
    const choice = command.json ? { choice: await calibrate(made, { asked: 'auto', cpu: cpuBackend() }) } : {};
    const report = await run(made, {
      ...{ input: tree, output, overwrite, verify, signal, onProgress, ...choice },
      ...(threads ? { threads } : {}),
    });
    progress.clear();
    process.stdout.write(command.json ? `${JSON.stringify(report)}\n` : reportText(report, command.out));
  } finally {
    threads?.close();
    progress.clear();
  }
}

async function verifyWeights(command: Extract<Command, { kind: 'verify' }>): Promise<void> {
  const { tree, tag } = await openCheckpoint(command);
  const isFile = (await stat(command.weights).catch(() => undefined))?.isFile() ?? false;
  const weights = await openFolder(isFile ? dirname(command.weights) : command.weights);
  const file = isFile ? { file: basename(command.weights) } : {};
  const progress = progressLine(process.stderr, !command.quiet && !command.json);
  try {
    const onProgress = ({ compared, total }: VerifyProgress) => progress.update(compared, total, 'compared');
    const report = await verify(tree, weights, {
      ...command.plan,
      ...tag,
      ...command.reading,
      ...file,
      signal: cancel.signal,
      onProgress,
    });
    progress.clear();
    process.stdout.write(command.json ? `${JSON.stringify(report)}\n` : verifyText(report));
    if (!report.matches) process.exitCode = EXIT_CODES.inconsistent;
  } finally {
    progress.clear();
  }
}

/** A checkpoint to read, and the tag where that is known already. */
interface OpenCheckpoint {
  readonly tree: FileTree;
  readonly tag: { readonly tag?: string };
}

/** Opens the folders to read as one. */
async function openCheckpoint(command: { readonly checkpoint: string } & Common): Promise<OpenCheckpoint> {
  const { tree, tag } = await openOuterFolder(command.checkpoint, command.tag);
  if (command.also.length === 0) return { tree, tag };
  return { tree: mergeTrees([tree, ...(await Promise.all(command.also.map(openFolder)))]), tag };
}

/**
 * Opens the folder to read. For a tag folder that is the folder around it, where the configuration lies, with the tag
 * chosen.
 */
async function openOuterFolder(path: string, tag: string | undefined): Promise<OpenCheckpoint> {
  const tree = await openFolder(path);
  if (tag !== undefined) return { tree, tag: { tag } };
  const entries = await tree.list('');
  const holdsShards = entries.some((entry) => entry.kind === 'file' && entry.name.endsWith('_states.pt'));
  const folder = resolve(path);
  if (!holdsShards || dirname(folder) === folder) return { tree, tag: {} };
  return { tree: await openFolder(dirname(folder)), tag: { tag: basename(folder) } };
}

/** Writing into the checkpoint could replace its own files. */
async function refuseInput(checkpoint: string, out: string): Promise<void> {
  const [input, output] = await Promise.all([
    realpath(checkpoint).catch(() => undefined),
    realpath(out).catch(() => undefined),
  ]);
  if (input === undefined || output === undefined || (output !== input && output !== dirname(input))) return;
  throw new UnshardError({
    kind: 'usage',
    code: 'output-is-input',
    message: `${out} is the checkpoint's own folder.`,
    advice: 'Choose another folder to write to. One inside the checkpoint will do.',
    facts: { file: out },
  });
}

/** Prints what went wrong and gives the exit code. */
function tellError(error: unknown, json: boolean): number {
  if (isAbort(error)) {
    process.stderr.write('Cancelled. Nothing was left behind.\n');
    return EXIT_CANCELLED;
  }
  if (isUnshardError(error)) {
    process.stderr.write(
      json ? `${JSON.stringify({ error: error.detail })}\n` : `Error (${error.detail.code}): ${error.message}\n`,
    );
    return EXIT_CODES[error.detail.kind];
  }
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  return EXIT_INTERNAL;
}
