import { spawn } from 'node:child_process';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { checkpointPath } from './fixtures.js';

/** The built command line. */
export const CLI = fileURLToPath(new URL('../../dist/node/cli.js', import.meta.url));

/** Stops a command in its first write. */
const HOLD_WRITE = new URL('./hold-write.mjs', import.meta.url).href;

/** How a process ended: with a code, or by a signal. */
export interface CommandEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A command that waits in the middle of a write. */
export interface HeldCommand {
  kill(signal: NodeJS.Signals): void;
  readonly ended: Promise<CommandEnd>;
}

/** How a command ended. */
export interface CommandResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the built command line in a process of its own. */
export function unshard(...args: string[]): Promise<CommandResult> {
  return runNode([CLI, ...args]);
}

/** Starts a command and resolves when it has written half of its first tile, where it waits to be killed or interrupted. */
export async function heldUnshard(...args: string[]): Promise<HeldCommand> {
  const child = spawn(process.execPath, ['--import', HOLD_WRITE, CLI, ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = new Promise<CommandEnd>((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal }));
  });
  let stderr = '';
  await new Promise<void>((resolve, reject) => {
    child.stderr.on('data', (chunk) => {
      stderr += chunk;
      if (stderr.includes('held\n')) resolve();
    });
    child.on('close', (code) => reject(new Error(`the command ended with ${code} before it wrote: ${stderr}`)));
  });
  return { kill: (signal) => child.kill(signal), ended };
}

/** Runs Node in a process of its own, in the folder `cwd` where one is given. */
export function runNode(args: readonly string[], cwd?: string): Promise<CommandResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'], cwd });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk) => {
      stdout += chunk;
    });
    child.stderr.on('data', (chunk) => {
      stderr += chunk;
    });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
}

/** An empty folder that is removed when the test ends. */
export async function temporaryFolder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'unshard-'));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** The folder of a copy of a checkpoint, with its times, that a test may damage. */
export async function checkpointCopy(name: string): Promise<string> {
  const folder = join(await temporaryFolder(), 'checkpoint');
  await cp(checkpointPath(name), folder, { recursive: true, preserveTimestamps: true });
  return folder;
}
