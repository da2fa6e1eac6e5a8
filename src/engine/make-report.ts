import { isFloat } from '../base/dtype.js';
import type { CheckReport } from '../checkpoints/inventory.js';
import { emptyStats } from '../numeric/stats.js';
import type { Plan } from '../plan/plan.js';
import type { ConvertStats } from './backend.js';
import type { BackendReport, FileReport, Report, TensorReport } from './report.js';

/** What a run of a plan has shown. */
export interface Outcome {
  readonly backend: BackendReport;
  readonly files: readonly FileReport[];
  /** By the index of each tensor in the plan. */
  readonly stats: readonly ConvertStats[];
  readonly checks: readonly CheckReport[];
  readonly seconds: number;
}

/** The report on a plan that was run. */
export function reportOf(plan: Plan, { backend, files, stats, checks, seconds }: Outcome): Report {
  const fileOf = new Map(
    plan.files.flatMap((file) =>
      file.parts.flatMap((part) => (part.kind === 'tensor' ? [[part.tensor, file.path]] : [])),
    ),
  );
  return {
    version: 1,
    options: plan.options,
    backend,
    files,
    tensors: plan.tensors.map((tensor, index): TensorReport => {
      const { name, shape, origin, from, to, fromCopy, compute, proofs = [] } = tensor;
      const counted = isFloat(from) ? { stats: stats[index] ?? emptyStats() } : {};
      const proven = proofs.map(({ check }) => check);
      const computed = compute ? { computed: compute.kind } : {};
      return {
        name,
        shape,
        file: fileOf.get(index) ?? '',
        origin,
        from,
        to,
        fromCopy,
        ...computed,
        proven,
        ...counted,
      };
    }),
    aliases: plan.aliases,
    skipped: plan.skipped,
    warnings: plan.warnings,
    checks,
    bytesRead: plan.totals.inputBytes,
    bytesWritten: plan.totals.outputBytes,
    seconds,
  };
}
