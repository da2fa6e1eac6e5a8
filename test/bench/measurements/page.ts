import { servePage } from '../../helpers/serve.js';
import { measureAgainstCopy } from '../conversion.js';
import type { Measurement, Row } from '../measurement.js';
import { page as pageRoad } from '../roads/page.js';

/** The built page: on the CPU, and once through the shaders on a software adapter. */
export const page: Measurement = {
  name: 'page',
  describe: 'the page against cp of its output, and what the processes of the browser grow by',
  async run(context) {
    const rows: Row[] = [];
    const served = await servePage();
    try {
      const checkpoints = context.checkpoints.large();
      for (const checkpoint of checkpoints) {
        for (const precision of ['fp32', 'bf16'] as const) {
          rows.push(await measureAgainstCopy(context, { road: pageRoad(served, 'cpu'), checkpoint, precision }));
        }
      }
      for (const checkpoint of checkpoints.slice(0, 1)) {
        rows.push(await measureAgainstCopy(context, { road: pageRoad(served, 'gpu'), checkpoint, precision: 'bf16' }));
      }
    } finally {
      await served.close();
    }
    return rows;
  },
};
