/**
 * A thread of the engine worker: fills tiles.
 *
 * @module
 */

import { serveTiles } from '../engine/threads/serve.js';
import { openPlace } from '../io/handles.js';

serveTiles({ openSource: openPlace });
