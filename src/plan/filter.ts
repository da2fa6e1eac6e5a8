import { matches } from '../base/glob.js';
import type { Notice } from '../checkpoints/inventory.js';
import type { Candidate, Step } from './names.js';
import type { ResolvedOptions } from './plan.js';

/** Leaves out what the user does not want: by name, or by where the bits come from. */
export function leaveOut(candidates: readonly Candidate[], options: ResolvedOptions): Step {
  const reasons = candidates.map((candidate) => reasonToSkip(candidate, options));
  return {
    kept: candidates.filter((_, i) => reasons[i] === undefined),
    skipped: candidates.flatMap(({ source }, i) => {
      const reason = reasons[i];
      return reason === undefined ? [] : [{ name: source, reason }];
    }),
    warnings: [
      ...unused(options.include, candidates, 'No name matches', 'was to be written'),
      ...unused(options.exclude, candidates, 'No name matches', 'was to be left out'),
    ],
  };
}

/** A pattern with a typing error would change nothing, and the output look as if it had. */
export function unusedPrecisions(written: readonly Candidate[], { dtypeFor }: ResolvedOptions): Notice[] {
  const patterns = dtypeFor.map(({ pattern }) => pattern);
  return unused(patterns, written, 'No name that is written matches', 'was to have a dtype of its own');
}

function unused(patterns: readonly string[], candidates: readonly Candidate[], none: string, wish: string): Notice[] {
  return patterns
    .filter((pattern) => !candidates.some(({ name }) => matches(pattern, name)))
    .map((pattern) => ({ code: 'pattern-unused', message: `${none} ${pattern}, which ${wish}.` }));
}

function reasonToSkip({ name, entry, compute }: Candidate, options: ResolvedOptions): string | undefined {
  const isNamed = (patterns: readonly string[]) => patterns.some((pattern) => matches(pattern, name));
  // A frozen weight that an adapter is merged into is what the training was for.
  const isFrozen = entry.origin === 'frozen' && compute === undefined;
  const isTrained = entry.origin === 'master' || entry.origin === 'copy' || compute !== undefined;
  if (options.excludeFrozen && isFrozen) return 'frozen parameter, left out as asked';
  if (options.trainableOnly && !isTrained) return 'not trained, left out as asked';
  if (options.include.length > 0 && !isNamed(options.include)) return 'not among the names asked for';
  return isNamed(options.exclude) ? 'left out as asked' : undefined;
}
