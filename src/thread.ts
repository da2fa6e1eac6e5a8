/**
 * A thread of the library for Node: fills tiles and writes them.
 *
 * @module
 */

import { workerData } from 'node:worker_threads';
import { serveTiles } from './engine/threads/serve.js';
import { openBlockingSink, openBlockingSource } from './io/node-blocking.js';

serveTiles(
  {
    openSource: (path, place) => openBlockingSource(path, String(place)),
    openSink: (path, place, byteLength) => openBlockingSink(path, String(place), byteLength),
  },
  workerData,
);
