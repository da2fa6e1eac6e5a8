/**
 * The cross-checks of an inspection, by their stable ids: what was compared, and how it came out. What fails is a problem
 * as well, so that nothing is converted.
 *
 * @module
 */

import { counted } from '../../base/words.js';
import type { CheckReport } from '../inventory.js';
import { checkAgreement } from './agreement.js';
import type { Draft } from './draft.js';
import { checkDevices, checkDuplicates, checkRootNames } from './identity.js';
import { nameLost } from './problems.js';
import type { Part } from './rank-set.js';
import type { GroupShapes, ModelStates, OptimStates, Shard } from './states.js';

/** Codes of the problems that make each check fail. */
const CODES: Readonly<Record<string, readonly string[]>> = {
  'rank-set': [
    'missing-optim-rank',
    'missing-model-rank',
    'stale-ranks',
    'rank-twice',
    'several-optim-sets',
    'the-number-of-ranks-differs',
    'partition-count-differs',
    'mp-world-size-differs',
    'missing-mp-rank',
    'stale-mp-ranks',
    'parallel-grid',
    'missing-layer',
    'layer-topology',
    'missing-expert',
    'missing-expert-optim',
    'expert-ranks',
    'expert-count',
    'expert-order',
    'stale-experts',
    'swap-files-missing',
    'swap-file-unclear',
  ],
  'root-names': ['root-name-differs'],
  'duplicate-shards': ['duplicate-shard'],
  'ranks-agree': [
    'zero-stage-differs',
    'ds-version-differs',
    'global-steps-differs',
    'frozen-param-shapes-differs',
    'optimizer-step-differs',
    'learning-rate-differs',
    'loss-scale-differs',
    'loss-scaler-iteration-differs',
    'param-shapes-differs',
    'ds-config-differs',
    'master-dtype-differs',
  ],
  'element-counts': [
    'group-count',
    'element-count',
    'group-padding',
    'share-count',
    'slice-length',
    'slice-not-flat',
    'shape-differs',
    'frozen-fragment',
    'swap-file-short',
    'tp-shards-differ',
  ],
  'slice-mappings': ['slice-mapping'],
  'names-once': [
    'name-twice',
    'tied-owner',
    'buffer-absent',
    'name-lost',
    'missing-param',
    'param-unlisted',
    'tp-name-missing',
  ],
};

/**
 * Checks what the files of a model-parallel rank say of themselves, before their tensors are put together. `others` are
 * those of experts and layers.
 */
export async function checkFiles(
  draft: Draft,
  { stage, models, optims }: Pick<Part, 'stage' | 'models' | 'optims'>,
  others: readonly Shard[],
  groups: GroupShapes,
  signal: AbortSignal | undefined,
): Promise<void> {
  const [ownModels, ownOptims] = [models.filter(isThere), optims.filter(isThere)];
  draft.checks.push(
    checkRootNames(draft, [...[...ownModels, ...ownOptims].map(({ shard }) => shard), ...others]),
    await checkDuplicates(draft, stage, optims, groups, signal),
    await checkAgreement(draft, ownModels, ownOptims, signal),
    checkDevices(optims),
  );
}

function isThere({ shard }: ModelStates | OptimStates): boolean {
  return shard.isLost !== true;
}

/** Checks that every name of the model files is accounted for, once all tensors are put together without a problem. */
export function checkNames(draft: Draft, models: readonly ModelStates[]): void {
  for (const model of models) {
    const names = [...model.module.keys(), ...model.bufferNames, ...model.shared.keys()];
    const skipped = new Set(draft.skipped.map(({ name }) => name));
    const lost = names.find((name) => !draft.tensors.has(name) && !draft.aliases.has(name) && !skipped.has(name));
    if (lost !== undefined) draft.problems.push(nameLost(model.shard.path, lost));
  }
}

/**
 * One line for each check: those that were made of every part, and those whose only trace is a problem. `others` are
 * files of the folder that are no shards.
 */
export function checkReports(draft: Draft, parts: readonly Part[], others: readonly string[]): CheckReport[] {
  const made = new Map<string, CheckReport[]>();
  for (const report of [rankSet(parts, others), ...draft.checks, elementCounts(draft, parts), namesOnce(draft)]) {
    made.set(report.id, [...(made.get(report.id) ?? []), report]);
  }
  return [...made.values()].flatMap((reports) => {
    const problem = [...draft.problems, ...draft.faults].find(({ code }) =>
      CODES[reports[0]?.id ?? '']?.includes(code),
    );
    const report = joined(reports);
    return report ? [problem ? { ...report, status: 'failed', detail: problem.message } : report] : [];
  });
}

/** The reports of one check of several model-parallel ranks as one: the worst is told. */
function joined(reports: readonly CheckReport[]): CheckReport | undefined {
  const [worst] = reports.toSorted((a, b) => SEVERITY[b.status] - SEVERITY[a.status]);
  const alike = reports.filter(({ status }) => status === worst?.status).length;
  if (!worst || alike === 1) return worst;
  return { ...worst, detail: `${worst.detail} And so for ${alike - 1} more model-parallel ranks.` };
}

const SEVERITY: Readonly<Record<CheckReport['status'], number>> = { passed: 0, 'not-checkable': 1, failed: 2 };

/** Other files that are named. */
const MAX_OTHERS = 5;

function rankSet(parts: readonly Part[], others: readonly string[]): CheckReport {
  const optims = parts.reduce((sum, part) => sum + part.optims.length, 0);
  const models = parts.reduce((sum, part) => sum + part.models.filter(isThere).length, 0);
  const lost = parts.reduce((sum, part) => sum + part.optims.filter((optim) => !isThere(optim)).length, 0);
  if (lost > 0) {
    const detail = `The optimizer files of ${lost} of ${counted(optims, 'rank')} are lost; model files: ${models}.`;
    return { id: 'rank-set', status: 'failed', detail };
  }
  const found =
    optims > 0
      ? `The optimizer files of ${counted(optims, 'rank')} are there, as many as each says`
      : 'No optimizer file';
  const more = others.length > MAX_OTHERS ? ', …' : '';
  const beside = others.length > 0 ? ` Not read: ${others.slice(0, MAX_OTHERS).join(', ')}${more}.` : '';
  return { id: 'rank-set', status: 'passed', detail: `${found}; model files: ${models}.${beside}` };
}

function elementCounts({ problems }: Draft, parts: readonly Part[]): CheckReport {
  const id = 'element-counts';
  const slices = parts.flatMap(({ optims }) => optims.filter(isThere).flatMap(({ flatGroups }) => flatGroups));
  if (slices.length === 0) return { id, status: 'not-checkable', detail: 'There are no flat buffers of masters.' };
  if (problems.length > 0) return notReached(id);
  const stored = slices.reduce((sum, { numel }) => sum + numel, 0);
  const detail = `Slices of flat buffers: ${slices.length}. They hold ${counted(stored, 'element')}: those of their parameters, and the padding that belongs to them.`;
  return { id, status: 'passed', detail };
}

function namesOnce({ problems, skipped, tensors, aliases }: Draft): CheckReport {
  const id = 'names-once';
  if (problems.length > 0) return notReached(id);
  const origins = new Map<string, number>();
  for (const { origin } of tensors.values()) {
    origins.set(origin, (origins.get(origin) ?? 0) + 1);
  }
  const counts = [...origins].map(([origin, count]) => `${count} ${origin}`).join(', ');
  const detail = `Every name of the checkpoint is there once: ${counts}; ${counted(aliases.size, 'tied name')}, ${skipped.length} left out with a reason.`;
  return { id, status: 'passed', detail };
}

function notReached(id: string): CheckReport {
  return { id, status: 'not-checkable', detail: 'Not checked, because of a problem that was found before.' };
}
