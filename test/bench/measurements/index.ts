import type { Measurement } from '../measurement.js';
import { commandLine } from './command-line.js';
import { memory } from './memory.js';
import { page } from './page.js';

/** All measurements, in the order they are made. */
export const MEASUREMENTS: readonly Measurement[] = [commandLine, page, memory];
