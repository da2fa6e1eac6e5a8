import type { WriteStream } from 'node:tty';
import type { RunProgress } from '../node.js';
import { bytes } from './print.js';

/** Time between two updates of the line, in milliseconds. */
const INTERVAL = 200;

/** A line that tells how far a run is. It shows on a terminal only. */
export function progressLine(stream: WriteStream, wanted: boolean) {
  const shown = wanted && stream.isTTY === true;
  const started = performance.now();
  let last = Number.NEGATIVE_INFINITY;
  return {
    /** Shows a step, unless the last one was shown a moment ago. */
    update({ written, total, file, filesDone, files, phase }: RunProgress): void {
      const now = performance.now();
      if (!shown || now - last < INTERVAL) return;
      last = now;
      const rate = (written / Math.max(now - started, 1)) * 1000;
      const percent = total === 0 ? 100 : Math.floor((written / total) * 100);
      const doing = phase === 'close' ? 'closing' : 'writing';
      stream.write(
        `\r\x1b[K${percent}%  ${bytes(written)} of ${bytes(total)}  ${bytes(rate)}/s  ${doing} ${file} (${filesDone}/${files})`,
      );
    },
    /** Removes the line. */
    clear(): void {
      if (shown) stream.write('\r\x1b[K');
    },
  };
}
