/**
 * The side of a thread: opens sources where they are, and fills tiles one after another.
 *
 * @module
 */

import { type Endpoint, expose } from 'comlink';
import { assert } from '../../base/errors.js';
import type { ByteSource } from '../../io/types.js';
import { CrcAudit } from '../audit.js';
import { cpuBackend } from '../cpu.js';
import { ConverterSwitch } from '../fill.js';
import { type Filler, localFiller } from '../filler.js';
import { PlanSources } from '../sources.js';
import { registerErrorHandler } from './errors.js';
import { moved, type ThreadApi } from './protocol.js';

/** A run, as its thread sees it. */
interface OpenRun {
  readonly filler: Filler;
  readonly sources: PlanSources;
  readonly audit: CrcAudit | undefined;
  readonly stop: AbortController;
}

/**
 * Answers the calls of a run, which come from `endpoint`; a worker's own where there is none. `openPlace` opens a file by
 * the `place` of its source.
 */
export function serveTiles(
  openPlace: (path: string, place: unknown) => Promise<ByteSource>,
  endpoint?: Endpoint,
): void {
  let run: OpenRun | undefined;
  const api: ThreadApi = {
    async open({ plan, places, audit: isAudited, crcs }) {
      await api.close();
      const sources = new PlanSources((path, index) => openPlace(path, places[index]), plan.sources);
      const audit = isAudited ? new CrcAudit(plan.crcs) : undefined;
      const stop = new AbortController();
      const backend = new ConverterSwitch(cpuBackend());
      const filler = localFiller({ plan, sources, audit, backend, signal: stop.signal }, crcs);
      run = { filler, sources, audit, stop };
    },
    async fill(tile, memory) {
      assert(run, 'a tile is to be filled, and no run is open');
      const { filler, audit } = run;
      const filled = await filler.fill(tile, memory);
      return moved({ ...filled, audited: audit?.takeRuns() ?? [] }, memory);
    },
    async close() {
      run?.stop.abort();
      await run?.filler.close();
      await run?.sources.close();
      run = undefined;
    },
  };
  registerErrorHandler();
  expose(api, endpoint);
}
