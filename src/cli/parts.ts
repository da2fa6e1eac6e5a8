/**
 * The commands for more than one machine: `plan`, `run` and `finish`.
 *
 * @module
 */

import {
  calibrate,
  cpuBackend,
  finish,
  folderOutput,
  hashPlan,
  inspect,
  openThreads,
  plan,
  type RunProgress,
  run,
} from '../node.js';
import type { Command, Planned } from './arguments.js';
import { openCheckpoint, openPlanned, refuseInput, refuseSources } from './checkpoint.js';
import { planFileText, readPlanFile, writePlanFile } from './plan-file.js';
import { finishedText, planText, reportText } from './print.js';
import { progressLine, runStep } from './progress.js';

/** Works out a plan, and writes it to a file where one is named. */
export async function planCheckpoint(
  command: Extract<Command, { kind: 'plan' }>,
  signal: AbortSignal,
): Promise<number> {
  const { tree, tag, folders } = await openCheckpoint(command);
  const inventory = await inspect(tree, { signal, partial: command.partial, ...tag, ...command.reading });
  const made = plan(inventory, command.plan);
  const isKept = command.file !== undefined || command.json;
  const content = isKept ? planFileText({ hash: await hashPlan(made), folders, plan: made }) : '';
  if (command.file !== undefined) await writePlanFile(command.file, content, command.overwrite);
  const saved = command.file === undefined ? '' : `Saved to ${command.file}.\n`;
  process.stdout.write(command.json ? content : planText(made) + saved);
  return 0;
}

/** Writes the files of a plan, or of a part of it. */
export async function runPlan(command: Extract<Command, { kind: 'run' }>, signal: AbortSignal): Promise<number> {
  const { made, tree } = await openPlan(command);
  const { out, part, overwrite, verify, sha256, recheck, json, quiet } = command;
  const progress = progressLine(process.stderr, !quiet && !json);
  const threads = openThreads(made, command.threads);
  try {
    const onProgress = (step: RunProgress) => progress.update(step.written, step.total, runStep(step));
    const choice = json ? { choice: await calibrate(made, { asked: 'auto', cpu: cpuBackend() }) } : {};
    const report = await run(made, {
      ...{ input: tree, output: folderOutput(out), overwrite, verify, sha256, recheck, signal, onProgress, ...choice },
      ...(part ? { part } : {}),
      ...(threads ? { threads } : {}),
    });
    progress.clear();
    process.stdout.write(json ? `${JSON.stringify(report)}\n` : reportText(report, out));
    return 0;
  } finally {
    threads?.close();
    progress.clear();
  }
}

/** Finishes a plan whose parts were run. */
export async function finishPlan(command: Extract<Command, { kind: 'finish' }>, signal: AbortSignal): Promise<number> {
  const { made, tree } = await openPlan(command);
  const { out, overwrite, verify, sha256, json, quiet } = command;
  const progress = progressLine(process.stderr, !quiet && !json);
  try {
    const onProgress = (step: RunProgress) => progress.update(step.written, step.total, runStep(step));
    const report = await finish(made, {
      input: tree,
      output: folderOutput(out),
      ...{ overwrite, verify, sha256, signal, onProgress },
    });
    progress.clear();
    process.stdout.write(json ? `${JSON.stringify(report)}\n` : finishedText(report, out));
    return 0;
  } finally {
    progress.clear();
  }
}

/** A plan from its file, and the checkpoint that it was made from. */
async function openPlan(command: Planned) {
  const { plan: made, folders: recorded } = await readPlanFile(command.file);
  const opened = await openPlanned(command, recorded);
  for (const folder of opened.folders) await refuseInput(folder, command.out);
  await refuseSources(opened, made, command.out);
  return { made, tree: opened.tree };
}
