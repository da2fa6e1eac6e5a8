/**
 * A page that measures conversions in a worker, as the product converts.
 *
 * @module
 */

import { type Remote, wrap } from 'comlink';
import type { Conversion } from '../../../src/engine/calibrate.js';
import type { Converter } from '../conversions.js';
import type { RatesApi } from './rates.worker.js';

declare global {
  interface Window {
    /** 10^9 bytes of input a second. Absent until the page is loaded. */
    measureConversion: ((conversion: Conversion, converter: Converter) => Promise<number>) | undefined;
  }
}

const worker: Remote<RatesApi> = wrap(new Worker(new URL('./rates.worker.ts', import.meta.url), { type: 'module' }));
window.measureConversion = async (conversion, converter) => worker.measure(conversion, converter);
