/**
 * What each command does.
 *
 * @module
 */

import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import {
  calibrate,
  cpuBackend,
  type FileTree,
  folderOutput,
  type InspectProgress,
  type Inventory,
  inspect,
  isUnshardError,
  openFolder,
  openThreads,
  plan,
  type RunProgress,
  run,
  UnshardError,
  type VerifyProgress,
  verify,
} from '../node.js';
import type { Command } from './arguments.js';
import { type OpenCheckpoint, openCheckpoint, refuseInput, refuseSources } from './checkpoint.js';
import { EXIT_CODES } from './exit.js';
import { finishPlan, planCheckpoint, runPlan } from './parts.js';
import { inventoryText, planText, reportText, verifyText } from './print.js';
import { inspectStep, progressLine, runStep } from './progress.js';

/** Runs a command that needs the library, and gives the exit code. */
export function runCommand(
  command: Exclude<Command, { kind: 'help' | 'version' }>,
  signal: AbortSignal,
): Promise<number> {
  if (command.kind === 'inspect') return inspectCheckpoint(command, signal);
  if (command.kind === 'verify') return verifyWeights(command, signal);
  if (command.kind === 'plan') return planCheckpoint(command, signal);
  if (command.kind === 'run') return runPlan(command, signal);
  if (command.kind === 'finish') return finishPlan(command, signal);
  return convert(command, signal);
}

async function inspectCheckpoint(command: Extract<Command, { kind: 'inspect' }>, signal: AbortSignal): Promise<number> {
  const { tree, tag } = await openCheckpoint(command);
  const inventory = await inspectShown(tree, command, tag, signal);
  process.stdout.write(command.json ? `${JSON.stringify(inventory)}\n` : inventoryText(inventory));
  const [problem] = inventory.problems;
  return problem ? EXIT_CODES[problem.kind] : 0;
}

/** Inspects, and tells how far it is. */
async function inspectShown(
  tree: FileTree,
  { json, quiet, partial, reading }: Extract<Command, { kind: 'inspect' | 'convert' }>,
  tag: OpenCheckpoint['tag'],
  signal: AbortSignal,
): Promise<Inventory> {
  const progress = progressLine(process.stderr, !quiet && !json);
  const onProgress = (step: InspectProgress) => progress.show(inspectStep(step));
  try {
    return await inspect(tree, { signal, partial, ...tag, ...reading, onProgress });
  } finally {
    progress.clear();
  }
}

async function convert(command: Extract<Command, { kind: 'convert' }>, signal: AbortSignal): Promise<number> {
  for (const folder of [command.checkpoint, ...command.also]) await refuseInput(folder, command.out);
  const opened = await openCheckpoint(command);
  const { tree } = opened;
  const inventory = await inspectShown(tree, command, opened.tag, signal);
  const made = plan(inventory, command.plan);
  await refuseSources(opened, made, command.out);
  if (command.dryRun) {
    process.stdout.write(command.json ? `${JSON.stringify(made)}\n` : planText(made));
    return 0;
  }
  const progress = progressLine(process.stderr, !command.quiet && !command.json);
  const output = folderOutput(command.out);
  const threads = openThreads(made, command.threads);
  try {
    const { overwrite, verify, sha256 } = command;
    const onProgress = (step: RunProgress) => progress.update(step.written, step.total, runStep(step));
    const choice = command.json ? { choice: await calibrate(made, { asked: 'auto', cpu: cpuBackend() }) } : {};
    const report = await run(made, {
      ...{ input: tree, output, overwrite, verify, sha256, signal, onProgress, ...choice },
      ...(threads ? { threads } : {}),
    });
    progress.clear();
    process.stdout.write(command.json ? `${JSON.stringify(report)}\n` : reportText(report, command.out));
    return 0;
  } finally {
    threads?.close();
    progress.clear();
  }
}

async function verifyWeights(command: Extract<Command, { kind: 'verify' }>, signal: AbortSignal): Promise<number> {
  const { tree, tag } = await openCheckpoint(command);
  const { weights, file } = await openWeights(command.weights);
  const progress = progressLine(process.stderr, !command.quiet && !command.json);
  try {
    const onProgress = ({ compared, total }: VerifyProgress) => progress.update(compared, total, 'compared');
    const report = await verify(tree, weights, {
      ...command.plan,
      ...tag,
      ...command.reading,
      partial: command.partial,
      ...(file === undefined ? {} : { file }),
      openThreads,
      signal,
      onProgress,
    });
    progress.clear();
    process.stdout.write(command.json ? `${JSON.stringify(report)}\n` : verifyText(report));
    return report.matches ? 0 : EXIT_CODES.inconsistent;
  } finally {
    progress.clear();
  }
}

/** A folder of weights; or that of a file of weights, and the file's name. */
async function openWeights(path: string): Promise<{ weights: FileTree; file?: string }> {
  const isFile = (await stat(path).catch(() => undefined))?.isFile() ?? false;
  if (isFile) return { weights: await openFolder(dirname(path)), file: basename(path) };
  try {
    return { weights: await openFolder(path) };
  } catch (error) {
    if (!isUnshardError(error, 'usage')) throw error;
    throw new UnshardError({ ...error.detail, advice: 'Name the file of the weights, or the folder that holds it.' });
  }
}
