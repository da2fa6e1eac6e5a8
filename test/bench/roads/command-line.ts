import { CLI } from '../../helpers/cli.js';
import { type Ended, runOrThrow } from '../process.js';
import type { Road, Settings } from './road.js';

/**
 * Runs in the measured process, and tells its peak at its very end. The kernel's `VmHWM` is exact; `maxRSS` of
 * `process.resourceUsage()` is not, since it starts at what the parent had when it forked.
 */
const TELL_PEAK = `data:text/javascript,
import { readFileSync, writeSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';
if (isMainThread) process.on('exit', () => writeSync(3, readFileSync('/proc/self/status')));`;

/** Peak of the resident memory of the command line, in bytes, that is not to be passed. */
export const COMMAND_LINE_MEMORY = 400e6;

/** A run of the command line: how it ended, and its peak memory in bytes. */
export interface CommandRun extends Ended {
  readonly peakMemory: number;
}

/** Runs the built command line in a process of its own. @throws where it does not end with 0 */
export async function runCommandLine(args: readonly string[]): Promise<CommandRun> {
  const ended = await runOrThrow(process.execPath, ['--import', TELL_PEAK, CLI, ...args]);
  const kib = /^VmHWM:\s+(\d+) kB$/m.exec(ended.note)?.[1];
  if (kib === undefined) throw new Error('The command line did not tell its peak memory.');
  return { ...ended, peakMemory: Number(kib) * 1024 };
}

/** The built command line. */
export const commandLine: Road = {
  name: 'command line',
  memoryTarget: COMMAND_LINE_MEMORY,
  async convert(checkpoint, output, settings, ready) {
    await ready();
    const { seconds, peakMemory } = await runCommandLine([checkpoint, output, '--quiet', ...optionsOf(settings)]);
    return { seconds, peakMemory };
  },
};

function optionsOf({ dtype, format, maxShardSize, verify = true, tpRules = [] }: Settings): string[] {
  return [
    ...['--dtype', dtype],
    ...(format === undefined ? [] : ['--format', format]),
    ...(maxShardSize === undefined ? [] : ['--max-shard-size', `${maxShardSize / 1e6}MB`]),
    ...(verify ? [] : ['--no-verify']),
    ...tpRules.flatMap(({ pattern, merge }) => ['--tp-rule', `${pattern}=${merge}`]),
  ];
}
