/**
 * Numbers for people. Sizes are decimal, as disks and model hubs count them.
 *
 * @module
 */

import { counted } from '../base/words.js';

const UNITS = ['bytes', 'kB', 'MB', 'GB', 'TB', 'PB'] as const;

/** A number of bytes: `1 byte`, `512 bytes`, `1.5 kB`, `13.5 GB`. */
export function formatBytes(bytes: number): string {
  if (bytes === 1) return '1 byte';
  const [value, unit] = scale(bytes, UNITS);
  return unit === 0 ? `${value} bytes` : `${significant(value)} ${UNITS[unit]}`;
}

const MAGNITUDES = ['', ' thousand', ' million', ' billion', ' trillion', ' quadrillion'] as const;

/** A large count in words: `950`, `6.74 billion`. */
export function formatMagnitude(count: number): string {
  if (count < 10_000) return formatCount(count);
  const [value, unit] = scale(count, MAGNITUDES);
  return `${significant(value)}${MAGNITUDES[unit]}`;
}

/** A count in full, with separators: `1,234,567`. */
export function formatCount(count: number): string {
  return count.toLocaleString('en-US');
}

/** `1 tensor`, `2 tensors`. */
export function plural(count: number, noun: string): string {
  return counted(count, noun, formatCount(count));
}

/** How many names a sentence holds. */
const MAX_NAMES = 5;

/** Names in a sentence: `a, b`; `a, b, c, d, e and 7 more`. */
export function formatNames(names: readonly string[]): string {
  const rest = names.length - MAX_NAMES;
  return rest > 0 ? `${names.slice(0, MAX_NAMES).join(', ')} and ${formatCount(rest)} more` : names.join(', ');
}

/** A time span: `26 ms`, `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`. */
export function formatSeconds(seconds: number): string {
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A time span that is not known exactly: `under 2 s`, `about 40 s`, `about 3.5 min`, `about 2 h 10 min`. */
export function formatAbout(seconds: number): string {
  if (seconds < 2) return 'under 2 s';
  if (seconds < 59.5) return `about ${Math.round(seconds)} s`;
  const minutes = seconds / 60;
  if (minutes < 9.75) return `about ${Math.round(minutes * 2) / 2} min`;
  if (minutes < 59.5) return `about ${Math.round(minutes)} min`;
  const tens = Math.round(minutes / 10);
  return `about ${Math.floor(tens / 6)} h${tens % 6 > 0 ? ` ${(tens % 6) * 10} min` : ''}`;
}

/** Bytes per second: `121 MB/s`. */
export function formatRate(bytesPerSecond: number): string {
  return `${formatBytes(Math.round(bytesPerSecond))}/s`;
}

/** A shape: `4096 × 11008`; `scalar` for no dimension. */
export function formatShape(shape: readonly number[]): string {
  return shape.length === 0 ? 'scalar' : shape.join(' × ');
}

/** The value in thousands to the power of the index returned, so that it prints as less than 1,000. */
function scale(value: number, units: readonly string[]): [number, number] {
  let index = 0;
  let scaled = value;
  // 999.5 would print as 1000.
  while (scaled >= 999.5 && index < units.length - 1) {
    scaled /= 1000;
    index += 1;
  }
  return [scaled, index];
}

/** Three significant digits, without trailing zeros. */
function significant(value: number): string {
  return String(Number(value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2)));
}
