/**
 * A thread of the library for Node: fills tiles.
 *
 * @module
 */

import { workerData } from 'node:worker_threads';
import { serveTiles } from './engine/threads/serve.js';
import { openPlace } from './io/node.js';

serveTiles((path, place) => openPlace(path, String(place)), workerData);
