/**
 * How a checkpoint is to be read, where it does not say so itself or lacks a part: what the user asks for beside the tag.
 *
 * @module
 */

import type { ErrorDetail } from '../base/errors.js';
import type { Notice, TpMerge, TpRule } from '../index.js';

/** What was asked for. */
export interface Reading {
  /** Take what can still be had where files are missing or damaged. */
  readonly partial: boolean;
  /** Paths of files to do without. */
  readonly lost: readonly string[];
  /** How tensor-parallel shards are joined, before what the checkpoint says. */
  readonly tpRules: readonly TpRule[];
  /** The shards of this tensor-parallel rank alone are taken. */
  readonly tpRank?: number;
}

/** Everything that is there, joined as the checkpoint says. */
export const PLAIN_READING: Reading = { partial: false, lost: [], tpRules: [] };

/** A rule as the controls hold it. It says nothing until a way to join is chosen. */
export interface RuleDraft {
  readonly pattern: string;
  readonly how: MergeChoice | '';
}

/** A way to join as a control's value: a dimension in digits, or a word. */
export type MergeChoice = (typeof MERGES)[number][0];

/** Ways to join, with their labels. Shards of more than three dimensions are not cut along the last ones. */
export const MERGES = [
  ['0', 'Along dimension 0 (column parallel)'],
  ['1', 'Along dimension 1 (row parallel)'],
  ['2', 'Along dimension 2'],
  ['replicated', 'Alike on all ranks'],
  ['average', 'Mean of all ranks'],
] as const;

/**
 * The rules of drafts. Those without a way to join are left out.
 *
 * @returns undefined where a way is chosen for no name at all: that rule is not finished
 */
export function finishedRules(drafts: readonly RuleDraft[]): readonly TpRule[] | undefined {
  const chosen = drafts.flatMap(({ pattern, how }) => (how === '' ? [] : [{ pattern: pattern.trim(), how }]));
  if (chosen.some(({ pattern }) => pattern === '')) return undefined;
  return chosen.map(({ pattern, how }) => ({ pattern, merge: mergeOf(how) }));
}

/** What the controls start with: the rules in force, and a line for each kind of tensors that a problem asks about. */
export function ruleDrafts(rules: readonly TpRule[], problems: readonly ErrorDetail[]): readonly RuleDraft[] {
  const given = rules.map(({ pattern, merge }): RuleDraft => ({ pattern, how: choiceOf(merge) }));
  const asked = problems.flatMap(askedPatterns).filter((pattern) => rules.every((rule) => rule.pattern !== pattern));
  return [...given, ...[...new Set(asked)].map((pattern): RuleDraft => ({ pattern, how: '' }))];
}

/** True for a problem that a rule or the choice of a rank solves. */
export function isAboutRanks({ code }: ErrorDetail): boolean {
  return code === 'tp-rules-missing' || code === 'missing-mp-rank';
}

/** True for a warning about what was asked for, which belongs beside it. */
export function isOfRanks({ code }: Notice): boolean {
  return code === 'tp-rule-unused' || code === 'tp-rule-fused' || code === 'tp-rank-alone';
}

/** The names that `tp-rules-missing` lists, each with its shape and reason, with `*` for numbers. */
function askedPatterns({ code, facts }: ErrorDetail): string[] {
  if (code !== 'tp-rules-missing') return [];
  return [...String(facts['tensors']).matchAll(/(?:^|; )(\S+) \[[\d, ]*\]: /g)].map(([, pattern = '']) => pattern);
}

function mergeOf(choice: MergeChoice): TpMerge {
  return choice === 'replicated' || choice === 'average' ? choice : Number(choice);
}

function choiceOf(merge: TpMerge): MergeChoice | '' {
  return MERGES.find(([choice]) => choice === String(merge))?.[0] ?? '';
}
