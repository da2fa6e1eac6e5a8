/**
 * How long a conversion takes by each way to write it, from what this machine was seen to need, or from figures of
 * another one until there are any.
 *
 * @module
 */

import { FILES_IN_FLIGHT, type FileView } from '../worker/protocol.js';
import type { Activity, Costs } from '../worker/stopwatch.js';

/** Seconds for each gigabyte that is read, written, and closed; for downloads, closing is the browser's own saving. */
export type Pace = Readonly<Record<Activity, number>>;

/** Ways to write: one file into a folder at a time, several files of a folder side by side, and downloads. */
export type Road = 'one' | 'several' | 'download';

/** What is known of each way. */
export interface Paces {
  readonly paces: Readonly<Record<Road, Pace>>;
  /** The ways that were seen on this machine. The others are estimates. */
  readonly measured: readonly Road[];
}

/** What is to be done. Sizes are bytes. */
export interface Job {
  /** Read from the checkpoint. */
  readonly inputBytes: number;
  readonly files: readonly Pick<FileView, 'byteLength'>[];
  /** What is written is read back, in folders when a file is finished. */
  readonly verify: boolean;
  /** Finished files are read for their SHA-256; in folders that is the same reading. */
  readonly sha256: boolean;
}

/** Runs that wrote less than this, in bytes, say nothing of how long a gigabyte takes. */
export const LEAST_BYTES = 100_000_000;

/** Seconds for each gigabyte, as two cores of an ordinary server and Chromium needed them. */
export const ESTIMATES: Paces = {
  paces: {
    one: { read: 1.6, write: 5.6, close: 11 },
    several: { read: 1.6, write: 3.1, close: 2.8 },
    download: { read: 1.6, write: 0.6, close: 2.1 },
  },
  measured: [],
};

/** Seconds that a job takes by a way into a folder or as downloads. */
export function secondsOf(job: Job, to: 'folder' | 'download', { paces }: Paces): number {
  const output = total(job.files);
  const pace = to === 'download' ? paces.download : between(paces.one, paces.several, filesAtOnce(job.files));
  const read = job.inputBytes + output * rereads(job, to);
  return (read * pace.read + output * (pace.write + pace.close)) / 1e9;
}

/** How often each byte of the output is read again. */
function rereads({ verify, sha256 }: Job, to: 'folder' | 'download'): number {
  return to === 'folder' ? Number(verify || sha256) : Number(verify) + Number(sha256);
}

/** The way that a set of files goes, in a folder; undefined for one in between, which tells nothing of either. */
export function folderRoad(files: Job['files']): 'one' | 'several' | undefined {
  const lanes = filesAtOnce(files);
  if (lanes < 1.25) return 'one';
  return lanes > 3 ? 'several' : undefined;
}

/** What is known after a run: its own figures, where it was large enough, take the place of older ones. */
export function learn(known: Paces, road: Road, costs: Costs): Paces {
  if (costs.write.bytes < LEAST_BYTES || costs.read.bytes < LEAST_BYTES) return known;
  const perGigabyte = (activity: Activity): number => (costs[activity].seconds * 1e9) / costs[activity].bytes;
  const old = known.paces[road];
  // The page does not see how the browser saves a download.
  const close = road === 'download' ? old.close : perGigabyte('close');
  const pace = { read: perGigabyte('read'), write: perGigabyte('write'), close };
  const measured = known.measured.includes(road) ? known.measured : [...known.measured, road];
  return { paces: { ...known.paces, [road]: pace }, measured };
}

/** The paces of a text that `JSON.stringify` made of some, and `ESTIMATES` for any other. */
export function parsePaces(text: string): Paces {
  try {
    const { paces, measured } = JSON.parse(text) as Paces;
    const isPace = (road: Road): boolean =>
      (['read', 'write', 'close'] as const).every((activity) => {
        const seconds = paces[road][activity];
        return Number.isFinite(seconds) && seconds >= 0;
      });
    return ROADS.every(isPace) && measured.every((road) => ROADS.includes(road)) ? { paces, measured } : ESTIMATES;
  } catch {
    return ESTIMATES;
  }
}

const ROADS: readonly Road[] = ['one', 'several', 'download'];

/** How many files are under way side by side, on the average: one large file among small ones is nearly alone. */
function filesAtOnce(files: Job['files']): number {
  const largest = files.reduce((most, { byteLength }) => Math.max(most, byteLength), 0);
  return largest === 0 ? 1 : Math.min(FILES_IN_FLIGHT, total(files) / largest);
}

function total(files: Job['files']): number {
  return files.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

/** The pace of `lanes` files at once, between that of one and that of four. */
function between(one: Pace, several: Pace, lanes: number): Pace {
  const share = (1 - 1 / lanes) / (1 - 1 / FILES_IN_FLIGHT);
  const mix = (activity: Activity): number => one[activity] + (several[activity] - one[activity]) * share;
  return { read: mix('read'), write: mix('write'), close: mix('close') };
}
