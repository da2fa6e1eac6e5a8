/**
 * The side of a thread: opens sources where they are, fills tiles one after another, and writes them where it can.
 *
 * @module
 */

import { type Endpoint, expose, transfer } from 'comlink';
import { assert } from '../../base/errors.js';
import type { ByteSource, OpenSink } from '../../io/types.js';
import type { Plan } from '../../plan/plan.js';
import { CrcAudit } from '../audit.js';
import { cpuBackend } from '../cpu.js';
import { ConverterSwitch } from '../fill.js';
import { type FilledTile, type LocalFiller, localFiller } from '../filler.js';
import { PlanSources } from '../sources.js';
import { outputFile, type TileRange, tileAt } from '../tiles.js';
import { registerErrorHandler } from './errors.js';
import { type FilledPiece, joinFilled, piecesOf } from './pieces.js';
import type { ThreadApi } from './protocol.js';

/** How a thread comes by files. */
export interface ThreadFiles {
  /** Opens a file by the `place` of its source. */
  openSource(path: string, place: unknown): Promise<ByteSource>;
  /** Opens a file of `byteLength` bytes, which is being written, by the `place` of its sink. Absent where threads cannot write. */
  openSink?(path: string, place: unknown, byteLength: number): Promise<OpenSink>;
}

/** A run, as its thread sees it. */
interface OpenRun {
  readonly plan: Plan;
  readonly filler: LocalFiller;
  readonly sources: PlanSources;
  readonly audit: CrcAudit | undefined;
  readonly stop: AbortController;
}

/** Answers the calls of a run, which come from `endpoint`; a worker's own where there is none. */
export function serveTiles(files: ThreadFiles, endpoint?: Endpoint): void {
  let open: OpenRun | undefined;
  const current = (): OpenRun => {
    assert(open, 'a tile is to be filled, and no run is open');
    return open;
  };
  const audited = (filled: FilledTile, { audit }: OpenRun): FilledTile => ({
    ...filled,
    audited: audit?.takeRuns() ?? [],
  });
  const api: ThreadApi = {
    async open({ plan, places, audit: isAudited, ...options }) {
      await api.close();
      const sources = new PlanSources((path, index) => files.openSource(path, places[index]), plan.sources);
      const audit = isAudited ? new CrcAudit(plan.crcs) : undefined;
      const stop = new AbortController();
      const backend = new ConverterSwitch(cpuBackend());
      const filler = localFiller({ plan, sources, audit, backend, signal: stop.signal }, options);
      open = { plan, filler, sources, audit, stop };
    },
    async fill(range, place) {
      const run = current();
      const sink = place === undefined ? undefined : await openSink(files, run.plan, range, place);
      try {
        const pieces: FilledPiece[] = [];
        for (const piece of piecesOf(run.plan, tileAt(run.plan, range))) {
          pieces.push({ piece, filled: await run.filler.fill(piece, sink) });
        }
        return audited(joinFilled(pieces), run);
      } finally {
        await sink?.release();
      }
    },
    async fillMemory(tile, memory) {
      const run = current();
      const filled = await run.filler.fill(tile, undefined, new Uint8Array(memory));
      return transfer({ ...audited(filled, run), memory }, [memory]);
    },
    async close() {
      const run = open;
      open = undefined;
      run?.stop.abort();
      await run?.filler.close();
      await run?.sources.close();
    },
  };
  registerErrorHandler();
  expose(api, endpoint);
}

function openSink(files: ThreadFiles, plan: Plan, { file }: TileRange, place: unknown): Promise<OpenSink> {
  const { path, byteLength } = outputFile(plan, file);
  assert(files.openSink, `${path} cannot be written by a thread`);
  return files.openSink(path, place, byteLength);
}
