import { CLI } from '../../helpers/cli.js';
import { runOrThrow } from '../process.js';
import type { Road } from './road.js';

/**
 * Runs in the measured process, and tells its peak at its very end. The kernel's `VmHWM` is exact; `maxRSS` of
 * `process.resourceUsage()` is not, since it starts at what the parent had when it forked.
 */
const TELL_PEAK = `data:text/javascript,
import { readFileSync, writeSync } from 'node:fs';
process.on('exit', () => writeSync(3, readFileSync('/proc/self/status')));`;

/** The built command line, in a process of its own. */
export const commandLine: Road = {
  name: 'command line',
  memoryLimit: 400e6,
  async convert(checkpoint, output, precision) {
    const options = ['--dtype', precision, '--quiet'];
    const ended = await runOrThrow(process.execPath, ['--import', TELL_PEAK, CLI, checkpoint, output, ...options]);
    const kib = /^VmHWM:\s+(\d+) kB$/m.exec(ended.note)?.[1];
    if (kib === undefined) throw new Error('The command line did not tell its peak memory.');
    return { seconds: ended.seconds, peakMemory: Number(kib) * 1024 };
  },
};
