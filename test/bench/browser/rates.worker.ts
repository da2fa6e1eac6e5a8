import { expose } from 'comlink';
import type { Backend } from '../../../src/engine/backend.js';
import { type Conversion, measureRate } from '../../../src/engine/calibrate.js';
import { cpuBackend } from '../../../src/engine/cpu.js';
import { openGpuBackend } from '../../../src/engine/gpu/backend.js';
import type { Converter } from '../conversions.js';

/** What the page calls. */
export interface RatesApi {
  /** 10^9 bytes of input a second. */
  measure(conversion: Conversion, converter: Converter): Promise<number>;
}

const backends = new Map<Converter, Promise<Backend>>();

const api: RatesApi = {
  async measure(conversion, converter) {
    const backend = backends.get(converter) ?? open(converter);
    backends.set(converter, backend);
    return measureRate(await backend, conversion);
  },
};

async function open(converter: Converter): Promise<Backend> {
  if (converter !== 'GPU adapter') return cpuBackend({ kernel: converter === 'JavaScript' ? 'js' : 'wasm' });
  const gpu = await openGpuBackend();
  if (!gpu) throw new Error('There is no GPU adapter.');
  return gpu;
}

expose(api);
