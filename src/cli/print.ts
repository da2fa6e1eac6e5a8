/**
 * Inventories, plans and reports as text for a terminal.
 *
 * @module
 */

import { counted } from '../base/words.js';
import {
  adaptersOf,
  type CheckpointFacts,
  type CheckReport,
  type Inventory,
  type Notice,
  type Plan,
  type Report,
  type SkippedTensor,
  type VerifiedTensor,
  type VerifyReport,
} from '../node.js';
import { errorText } from './advice.js';
import { printed } from './printable.js';

/** What is in a checkpoint, as a few lines and one per tensor. */
export function inventoryText(inventory: Inventory): string {
  const { tag, tags, facts, tensors, aliases } = inventory;
  const adapters = adaptersOf(inventory);
  const others = tags.filter((choice) => choice.path !== tag.path).map((choice) => choice.path || choice.tag);
  const lines = [
    `${inventory.folder}: ${inventory.layout}, tag ${tag.tag}${tag.latest ? ' (latest)' : ''}`,
    ...(others.length > 0 ? [`  other tags      ${others.join(', ')}`] : []),
    ...factLines(facts),
    `  tensors         ${tensors.length}${tensors.length > 0 ? ` (${originCounts(inventory)})` : ''}`,
    ...(Object.keys(aliases).length > 0 ? [`  tied            ${pairs(aliases)}`] : []),
    ...(adapters.length > 0 ? [`  LoRA adapters   ${adapters.join(', ')}`] : []),
    ...noticeLines(inventory),
    ...checkLines(inventory.checks).map((line) => `  ${line}`),
    '',
    ...tensors.map(({ name, shape, origin, stored }) => `  ${name}  [${shape.join(', ')}]  ${stored.dtype}  ${origin}`),
  ];
  return printed(lines);
}

/** The files that a plan writes. */
export function planText(plan: Plan): string {
  const lines = [
    `${countOf(plan.totals.tensors, 'tensor')}, ${countOf(plan.totals.elements, 'element')}, ${bytes(plan.totals.outputBytes)} to write:`,
    ...plan.files.map((file) => `  ${file.path}  ${bytes(file.byteLength)}`),
    ...plan.warnings.flatMap((notice) => noticeText(notice).map((line) => `  note: ${line}`)),
    ...skippedLines(plan.skipped).map((line) => `  not written: ${line}`),
  ];
  return printed(lines);
}

/** What a run did, and what the user should know of it. */
export function reportText(report: Report, out: string): string {
  const { part, files, bytesWritten, seconds, backend } = report;
  const rate = `${bytes(bytesWritten / Math.max(seconds, 0.001))}/s`;
  const what = `${countOf(files.length, 'file')}, ${bytes(bytesWritten)},`;
  return detailedText(
    report,
    part
      ? `Part ${part} is complete: ${what} in ${out}.`
      : `Wrote ${what} to ${out} in ${time(seconds)} (${rate}, ${backend.name}).`,
  );
}

/** Small checkpoints take no tenth of a second. */
function time(seconds: number): string {
  return seconds < 0.0995 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
}

/** What all parts of a plan did together. */
export function finishedText(report: Report, out: string): string {
  return detailedText(
    report,
    `Finished: ${countOf(report.files.length, 'file')}, ${bytes(report.bytesWritten)}, in ${out}.`,
  );
}

function detailedText(report: Report, headline: string): string {
  const unusual = unusualLines(report);
  const lines = [
    headline,
    ...report.files.map((file) => `  ${file.path}  ${bytes(file.byteLength)}${file.sha256 ? `  ${file.sha256}` : ''}`),
    ...report.warnings.flatMap((notice) => noticeText(notice).map((line) => `Note: ${line}`)),
    ...computedLines(report),
    ...skippedLines(report.skipped).map((line) => `Not written: ${line}`),
    ...(unusual.length > 0 ? ['Values to look at:', ...unusual] : []),
    ...checkLines(report.checks),
  ];
  return printed(lines);
}

/** How weights compare with a checkpoint: a line for each tensor, and a count. */
export function verifyText(report: VerifyReport): string {
  const matched = report.tensors.filter(({ status }) => status === 'match' || status === 'tied').length;
  const verdict = report.matches
    ? 'The weights are those of the checkpoint'
    : 'The weights are not those of the checkpoint';
  const lines = [
    ...report.tensors.map(verifiedLine),
    ...checkLines(report.checks),
    `${verdict}: ${matched} of ${counted(report.tensors.length, 'tensor')} match.`,
  ];
  return printed(lines);
}

function verifiedLine(tensor: VerifiedTensor): string {
  const { name, status, shape, dtype, expected, found, index, count: differing } = tensor;
  const what = `${name}  [${shape.join(', ')}]  ${dtype}`;
  switch (status) {
    case 'match':
      return `  =  ${what}`;
    case 'tied':
      return `  =  ${name}  tied to ${expected}`;
    case 'differs':
      return `  ≠  ${what}  elements that differ: ${count(differing ?? 0)}; the first, ${index}, is ${found} and should be ${expected}`;
    case 'missing':
      return `  -  ${what}  missing`;
    case 'extra':
      return `  +  ${what}  not in the checkpoint`;
    case 'other-shape':
    case 'other-dtype':
      return `  ≠  ${what}  should be ${expected}`;
  }
}

function checkLines(checks: readonly CheckReport[]): string[] {
  return checks.map(({ id, status, detail }) => `Check ${status} (${id}): ${detail}`);
}

/** Tensors that are not written, each by name; where many have the same reason, the first of them and their number. */
function skippedLines(skipped: readonly SkippedTensor[]): string[] {
  const byReason = new Map<string, string[]>();
  for (const { name, reason } of skipped) byReason.set(reason, [...(byReason.get(reason) ?? []), name]);
  return [...byReason].flatMap(([reason, names]) =>
    names.length <= MAX_SKIPPED
      ? names.map((name) => `${name} (${reason})`)
      : [`${names.length} tensors (${reason}): ${names[0]}, ${names[1]}, …`],
  );
}

/** Tensors whose values are no conversion of stored ones. */
function computedLines({ tensors }: Report): string[] {
  const line = (kind: string, what: string) => {
    const { length } = tensors.filter(({ computed }) => computed === kind);
    return length > 0 ? [`${what} ${counted(length, 'tensor')}, in fp32 on the CPU.`] : [];
  };
  return [...line('lora', 'Merged the adapter into'), ...line('mean', 'Averaged the copies of')];
}

/** Tensors with one reason that are shown by name at most. */
const MAX_SKIPPED = 5;

/** Tensors shown by name at most; the report in JSON has them all. */
const MAX_UNUSUAL = 20;

/** Tensors with values that a user should look at; underflow to zero is common, and told as a sum. */
function unusualLines(report: Report): string[] {
  const odd = report.tensors.flatMap(({ name, stats }) => {
    const found = (['overflow', 'nan', 'inf'] as const).filter((key) => (stats?.[key] ?? 0) > 0);
    return found.length > 0 ? [`  ${name}: ${found.map((key) => `${stats?.[key]} ${key}`).join(', ')}`] : [];
  });
  const underflow = report.tensors.reduce((sum, { stats }) => sum + (stats?.underflow ?? 0), 0);
  return [
    ...odd.slice(0, MAX_UNUSUAL),
    ...(odd.length > MAX_UNUSUAL ? [`  and ${counted(odd.length - MAX_UNUSUAL, 'more tensor')}`] : []),
    ...(underflow > 0 ? [`  values that became zero, being too small for the dtype: ${count(underflow)}`] : []),
  ];
}

/** A size with a decimal unit, as disks and the Hub count. */
export function bytes(size: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(size, 1)) / 3));
  return `${(size / 1000 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}

function factLines(facts: CheckpointFacts): string[] {
  const { dangerousGlobals } = facts;
  return [
    `  DeepSpeed       ${facts.deepspeedVersion ?? 'not recorded'}`,
    `  ranks           ${facts.ranks}${cuts(facts)}`,
    ...(facts.globalSteps === undefined ? [] : [`  steps           ${facts.globalSteps}`]),
    `  elements        ${count(facts.elements)}`,
    `  trained in      ${facts.modelDtype ?? 'unknown'}; masters ${facts.masterDtype ?? 'not saved'}`,
    ...(dangerousGlobals.length > 0
      ? [`  DANGEROUS       the pickles name ${dangerousGlobals.join(', ')}; nothing was run`]
      : []),
  ];
}

/** What a model is cut by beside data parallelism. */
function cuts({ pipelineStages, tensorParallel, expertParallel }: CheckpointFacts): string {
  const parts = [
    ...(pipelineStages === undefined ? [] : [counted(pipelineStages, 'pipeline stage')]),
    ...(tensorParallel === undefined ? [] : [counted(tensorParallel, 'tensor-parallel rank')]),
    ...(expertParallel === undefined ? [] : [`experts over ${counted(expertParallel, 'rank')}`]),
  ];
  return parts.length > 0 ? ` (${parts.join(', ')})` : '';
}

/** A notice, and the tensors that it is about, a line for each. */
function noticeText({ message, tensors = [] }: Notice): string[] {
  return [message, ...tensors.map((name) => `  ${name}`)];
}

function noticeLines(inventory: Inventory): string[] {
  return [
    ...inventory.warnings.flatMap((notice) => noticeText(notice).map((line) => `  note            ${line}`)),
    ...inventory.skipped.map(({ name, reason }) => `  not written     ${name}: ${reason}`),
    ...inventory.problems.map((problem) => `  PROBLEM         ${errorText(problem)}`),
  ];
}

function originCounts(inventory: Inventory): string {
  const counts = new Map<string, number>();
  for (const { origin } of inventory.tensors) counts.set(origin, (counts.get(origin) ?? 0) + 1);
  return [...counts].map(([origin, number]) => `${number} ${origin}`).join(', ');
}

function pairs(aliases: Readonly<Record<string, string>>): string {
  return Object.entries(aliases)
    .map(([alias, owner]) => `${alias} = ${owner}`)
    .join(', ');
}

function countOf(value: number, noun: string): string {
  return counted(value, noun, count(value));
}

function count(value: number): string {
  // `toLocaleString` would load the tables of a language at the start.
  return String(value).replace(/\B(?=(\d{3})+$)/g, ',');
}
