#!/usr/bin/env node
/**
 * The command line: `unshard CHECKPOINT OUT`. What a command needs is loaded once it is known, so that help is there at once.
 *
 * @module
 */

import { version } from '../../package.json';
import { isAbort, isUnshardError } from '../base/errors.js';
import { sinkFailure } from '../io/failures.js';
import { errorText } from './advice.js';
import { parseCommand } from './arguments.js';
import { EXIT_CANCELLED, EXIT_CODES, EXIT_INTERNAL } from './exit.js';
import { HELP } from './help.js';
import { printable } from './printable.js';

const args = process.argv.slice(2);
const cancel = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => cancel.abort());
process.stdout.once('error', (error) => tellUnprinted(error));
// With the terminal gone there is nobody to tell.
process.stderr.once('error', () => {});

try {
  const command = parseCommand(args);
  if (command.kind === 'help') process.stdout.write(HELP);
  else if (command.kind === 'version') process.stdout.write(`${version}\n`);
  else process.exitCode = await (await import('./commands.js')).runCommand(command, cancel.signal);
} catch (error) {
  process.exitCode = tellError(error, args.includes('--json'));
}

/** What cannot be printed is a failure, unless its reader wanted no more of it: `| head`. */
function tellUnprinted(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') return;
  const code = tellError(sinkFailure('sink-failed', 'standard output', error), args.includes('--json'));
  // The command itself may end later, with a code of its own.
  process.once('exit', () => {
    process.exitCode = code;
  });
}

/** Prints what went wrong and gives the exit code. */
function tellError(error: unknown, json: boolean): number {
  if (isAbort(error)) {
    const left = args.includes('--part') ? 'Files that are complete stay.' : 'Nothing was left behind.';
    process.stderr.write(`Cancelled. ${left}\n`);
    return EXIT_CANCELLED;
  }
  if (isUnshardError(error)) {
    process.stderr.write(
      json
        ? `${JSON.stringify({ error: error.detail })}\n`
        : `${printable(`Error (${error.detail.code}): ${errorText(error.detail)}`)}\n`,
    );
    return EXIT_CODES[error.detail.kind];
  }
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  return EXIT_INTERNAL;
}
