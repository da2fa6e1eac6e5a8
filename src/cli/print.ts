/**
 * Inventories, plans and reports as text for a terminal.
 *
 * @module
 */

import type { CheckpointFacts, Inventory, Plan, Report } from '../node.js';

/** What is in a checkpoint, as a few lines and one per tensor. */
export function inventoryText(inventory: Inventory): string {
  const { tag, tags, facts, tensors, aliases } = inventory;
  const others = tags.filter((choice) => choice.path !== tag.path).map((choice) => choice.path || choice.tag);
  const lines = [
    `${inventory.folder}: ${inventory.layout}, tag ${tag.tag}${tag.latest ? ' (latest)' : ''}`,
    ...(others.length > 0 ? [`  other tags      ${others.join(', ')}`] : []),
    ...factLines(facts),
    `  tensors         ${tensors.length} (${originCounts(inventory)})`,
    ...(Object.keys(aliases).length > 0 ? [`  tied            ${pairs(aliases)}`] : []),
    ...noticeLines(inventory),
    '',
    ...tensors.map(({ name, shape, origin, stored }) => `  ${name}  [${shape.join(', ')}]  ${stored.dtype}  ${origin}`),
  ];
  return `${lines.join('\n')}\n`;
}

/** The files that a plan writes. */
export function planText(plan: Plan): string {
  const lines = [
    `${plan.totals.tensors} tensors, ${count(plan.totals.elements)} elements, ${bytes(plan.totals.outputBytes)} to write:`,
    ...plan.files.map((file) => `  ${file.path}  ${bytes(file.byteLength)}`),
    ...plan.skipped.map(({ name, reason }) => `  not written: ${name} (${reason})`),
  ];
  return `${lines.join('\n')}\n`;
}

/** What a run did, and what the user should know of it. */
export function reportText(report: Report, out: string): string {
  const rate = report.bytesWritten / Math.max(report.seconds, 0.001);
  const unusual = unusualLines(report);
  const lines = [
    `Wrote ${report.files.length} files, ${bytes(report.bytesWritten)}, to ${out} in ${report.seconds.toFixed(1)} s (${bytes(rate)}/s, ${report.backend.name}).`,
    ...report.files.map((file) => `  ${file.path}  ${bytes(file.byteLength)}`),
    ...report.warnings.map(({ message }) => `Note: ${message}`),
    ...report.skipped.map(({ name, reason }) => `Not written: ${name} (${reason})`),
    ...(unusual.length > 0 ? ['Values to look at:', ...unusual] : []),
    ...report.checks.map(({ status, detail }) => `Check ${status}: ${detail}`),
  ];
  return `${lines.join('\n')}\n`;
}

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
    ...(odd.length > MAX_UNUSUAL ? [`  and ${odd.length - MAX_UNUSUAL} more tensors`] : []),
    ...(underflow > 0 ? [`  ${count(underflow)} values became zero, being too small for the dtype`] : []),
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
    `  ranks           ${facts.ranks}`,
    ...(facts.globalSteps === undefined ? [] : [`  steps           ${facts.globalSteps}`]),
    `  elements        ${count(facts.elements)}`,
    `  trained in      ${facts.modelDtype ?? 'unknown'}; masters ${facts.masterDtype ?? 'not saved'}`,
    ...(dangerousGlobals.length > 0
      ? [`  DANGEROUS       the pickles name ${dangerousGlobals.join(', ')}; nothing was run`]
      : []),
  ];
}

function noticeLines(inventory: Inventory): string[] {
  return [
    ...inventory.warnings.map(({ message }) => `  note            ${message}`),
    ...inventory.skipped.map(({ name, reason }) => `  not written     ${name}: ${reason}`),
    ...inventory.problems.map(({ message, advice }) => `  PROBLEM         ${message} ${advice}`),
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

function count(value: number): string {
  return value.toLocaleString('en');
}
