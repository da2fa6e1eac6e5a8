/**
 * A worker that converts, as the page's does, and says what came out.
 *
 * @module
 */

import { cpuBackend } from '../../../src/engine/cpu.js';
import { firstDifference, mixedBytes, PAIRS, wholeJob } from '../../helpers/float-vectors.js';
import { expectedOf } from '../../helpers/piece-jobs.js';

/** What converted, and the conversions whose bytes or statistics are not those of the specification. */
export interface CpuAnswer {
  readonly description: string;
  readonly wrong: readonly string[];
}

self.onmessage = async () => {
  const cpu = cpuBackend();
  const wrong: string[] = [];
  for (const [from, to] of PAIRS) {
    const job = wholeJob(from, to, mixedBytes(from));
    const wanted = expectedOf(job);
    const stats = await cpu.convert(job);
    const difference = firstDifference(job.output, wanted.output, to);
    if (difference !== undefined) wrong.push(`${from} to ${to}: ${difference}`);
    if (JSON.stringify(stats) !== JSON.stringify(wanted.stats)) wrong.push(`${from} to ${to}: its statistics`);
  }
  const answer: CpuAnswer = { description: cpu.description, wrong };
  self.postMessage(answer);
};
