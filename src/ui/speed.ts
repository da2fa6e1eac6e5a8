/**
 * Speed and time left, from the bytes written over time.
 *
 * @module
 */

/** Bytes written at a time, in milliseconds of any steady clock. */
export interface Sample {
  readonly at: number;
  readonly bytes: number;
}

/**
 * How far back the speed looks, in milliseconds. A browser writes in bursts and rests while it checks finished files;
 * a shorter window would swing between the two.
 */
export const WINDOW_MS = 20_000;

/** Shortest time to tell a speed from, in milliseconds: below it the figure is noise. */
const LEAST_MS = 500;

/** Adds a sample and lets go of those that the window has passed, but for the last of them. */
export function addSample(samples: readonly Sample[], sample: Sample): readonly Sample[] {
  const from = samples.findLastIndex((earlier) => earlier.at <= sample.at - WINDOW_MS);
  return [...samples.slice(Math.max(from, 0)), sample];
}

/** Bytes per second over the window; undefined while it is too short to tell. */
export function rateOf(samples: readonly Sample[]): number | undefined {
  const first = samples[0];
  const last = samples.at(-1);
  if (!first || !last || last.at - first.at < LEAST_MS) return undefined;
  return ((last.bytes - first.bytes) * 1000) / (last.at - first.at);
}

/** Seconds that `bytes` more will take; undefined where the speed is not known. */
export function secondsLeft(samples: readonly Sample[], bytes: number): number | undefined {
  const rate = rateOf(samples);
  return rate ? bytes / rate : undefined;
}
