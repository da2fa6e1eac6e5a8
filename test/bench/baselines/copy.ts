import { readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Baseline } from '../conversion.js';
import { chill, settle, warm } from '../disk.js';
import { runOrThrow } from '../process.js';

/** `cp` of the very output. */
export const copy: Baseline = {
  name: 'cp',
  async seconds({ work }, { output }, cache) {
    const target = join(work, 'copy');
    const files = readdirSync(output).map((name) => join(output, name));
    const ranges = files.map((path) => ({ path, offset: 0, length: statSync(path).size }));
    await settle(
      work,
      ranges.reduce((sum, { length }) => sum + length, 0),
    );
    if (cache === 'warm') warm(ranges);
    else if (!(await chill(files))) return undefined;
    const { seconds } = await runOrThrow('cp', ['--recursive', output, target]);
    rmSync(target, { recursive: true });
    return seconds;
  },
};
