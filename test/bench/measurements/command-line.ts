import type { Precision } from '../checkpoint/expected.js';
import { measureAgainstCopy } from '../conversion.js';
import type { Measurement, Row } from '../measurement.js';
import { commandLine as road } from '../roads/command-line.js';

const PRECISIONS: readonly Precision[] = ['fp32', 'bf16', 'fp16'];

/** The command line in every precision. */
export const commandLine: Measurement = {
  name: 'command-line',
  describe: 'the command line against cp of its output, and the peak of its resident memory',
  async run(context) {
    const rows: Row[] = [];
    for (const checkpoint of context.checkpoints.large()) {
      for (const precision of PRECISIONS) {
        rows.push(await measureAgainstCopy(context, { road, checkpoint, precision }));
      }
    }
    return rows;
  },
};
