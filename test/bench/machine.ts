import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { cpus, loadavg, totalmem } from 'node:os';
import { chromium } from 'playwright';
import { chromiumLaunch } from '../helpers/chromium.js';
import { CLI } from '../helpers/cli.js';

/** Where and when figures were taken. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  /** Bytes. */
  readonly memory: number;
  readonly node: string;
  readonly chromium: string;
  /** Processes that wanted to run in the minute before: beyond the bench's own, they blur the figures. */
  readonly load: number;
  /** When the measured command line was built, ISO 8601. */
  readonly built: string;
  /** ISO 8601. */
  readonly date: string;
}

/** This machine, now. */
export function describeMachine(): Machine {
  const browser = spawnSync(chromiumLaunch().executablePath ?? chromium.executablePath(), ['--version'], {
    encoding: 'utf8',
  });
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memory: totalmem(),
    node: process.version,
    chromium: browser.stdout?.trim() || 'no Chromium',
    load: loadavg()[0] ?? 0,
    built: statSync(CLI).mtime.toISOString(),
    date: new Date().toISOString(),
  };
}

/** The machine as one line. */
export function machineText({ cpu, cores, memory, node, chromium, load, built, date }: Machine): string {
  const gib = (memory / 2 ** 30).toFixed(0);
  return `${cpu}, ${cores} cores, ${gib} GiB; Node ${node}; ${chromium}; load ${load.toFixed(1)}; built ${built}; ${date}`;
}
