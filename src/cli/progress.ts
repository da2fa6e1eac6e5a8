import type { WriteStream } from 'node:tty';
import { counted } from '../base/words.js';
import type { InspectProgress, RunProgress } from '../node.js';
import { bytes } from './print.js';
import { printable } from './printable.js';

/** Time between two updates of the line, in milliseconds. */
const INTERVAL = 200;

/** Each phase of a run in words. */
const DOING: Readonly<Record<RunProgress['phase'], string>> = {
  write: 'writing',
  close: 'closing',
  check: 'checking',
};

/** What a run is doing. */
export function runStep({ phase, file, filesDone, files }: RunProgress): string {
  return `${DOING[phase]} ${file} (${filesDone}/${files})`;
}

/** How many files of a checkpoint were read, and what the first ones say. */
export function inspectStep({ done, total, facts }: InspectProgress): string {
  const { stage, ranks, parameters = 0, deepspeedVersion } = facts ?? {};
  const said = [
    ...(stage === undefined ? [] : [`ZeRO-${stage}`]),
    ...(ranks === undefined ? [] : [counted(ranks, 'rank'), counted(parameters, 'parameter')]),
    ...(deepspeedVersion === undefined ? [] : [`DeepSpeed ${deepspeedVersion}`]),
  ];
  return [`read ${done} of ${counted(total, 'file')}`, ...said].join('  ');
}

/** A line that tells how far a job is. It shows on a terminal only. */
export function progressLine(stream: WriteStream, wanted: boolean) {
  const shown = wanted && stream.isTTY === true;
  const started = performance.now();
  let last = Number.NEGATIVE_INFINITY;
  return {
    /** Shows how many of all bytes are done, unless the last step was shown a moment ago. */
    update(done: number, total: number, doing: string): void {
      const now = performance.now();
      if (!shown || now - last < INTERVAL) return;
      last = now;
      const rate = (done / Math.max(now - started, 1)) * 1000;
      const percent = total === 0 ? 100 : Math.floor((done / total) * 100);
      stream.write(`\r\x1b[K${percent}%  ${bytes(done)} of ${bytes(total)}  ${bytes(rate)}/s  ${printable(doing)}`);
    },
    /** Shows what is being done, unless something was shown a moment ago. */
    show(doing: string): void {
      const now = performance.now();
      if (!shown || now - last < INTERVAL) return;
      last = now;
      stream.write(`\r\x1b[K${printable(doing)}`);
    },
    /** Removes the line. */
    clear(): void {
      if (shown) stream.write('\r\x1b[K');
    },
  };
}
