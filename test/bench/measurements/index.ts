import type { Measurement } from '../measurement.js';
import { commandLine } from './command-line.js';
import { formats } from './formats.js';
import { kernels } from './kernels.js';
import { memory } from './memory.js';
import { page, pageDownload, pageGpu, pageShards } from './page.js';
import { ranks } from './ranks.js';
import { shapes } from './shapes.js';
import { start } from './start.js';

/** All measurements, in the order they are made. */
export const MEASUREMENTS: readonly Measurement[] = [
  commandLine,
  page,
  pageShards,
  pageDownload,
  pageGpu,
  formats,
  memory,
  ranks,
  shapes,
  kernels,
  start,
];
