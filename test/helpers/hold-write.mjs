/**
 * Loaded into a command before it starts: the first write of weights stops half-way, says so on stderr, and goes on when
 * the process is interrupted. What a test does to the process meanwhile is certain to fall within the run.
 *
 * @module
 */

import { open } from 'node:fs/promises';

/** What JSON starts with: configurations and states are written without a stop. */
const JSON_START = '{'.charCodeAt(0);

const handle = await open(process.execPath);
const prototype = Object.getPrototypeOf(handle);
await handle.close();

const { write } = prototype;
let isHeld = false;

prototype.write = async function (bytes, offset, length, position) {
  if (isHeld || length < 2 || bytes[offset] === JSON_START) return write.call(this, bytes, offset, length, position);
  isHeld = true;
  const written = await write.call(this, bytes, offset, Math.floor(length / 2), position);
  process.stderr.write('held\n');
  await new Promise((resolve) => {
    const alive = setInterval(() => {}, 1000);
    process.once('SIGINT', () => {
      clearInterval(alive);
      resolve();
    });
  });
  return written;
};
