import { isFloat } from '../base/dtype.js';
import { numelOf } from '../base/shape.js';
import type { CheckReport, Notice } from '../checkpoints/inventory.js';
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
    warnings: [...plan.warnings, ...zeroNotices(plan, stats)],
    checks,
    bytesRead: plan.totals.inputBytes,
    bytesWritten: plan.totals.outputBytes,
    seconds,
  };
}

/** A weight of zeros alone may never have been trained, or never been written. */
function zeroNotices({ tensors }: Plan, stats: readonly ConvertStats[]): Notice[] {
  const zeros = tensors.filter(({ shape, from, origin }, index) => {
    const { largest, nan, inf } = stats[index] ?? { largest: Number.NaN, nan: 0, inf: 0 };
    return isFloat(from) && origin !== 'buffer' && numelOf(shape) > 1 && largest === 0 && nan + inf === 0;
  });
  const [first] = zeros;
  if (!first) return [];
  const which = zeros.length === 1 ? first.name : `${zeros.length} tensors (${first.name}, …)`;
  return [{ code: 'all-zero', message: `All elements of ${which} are zero in the checkpoint.` }];
}
