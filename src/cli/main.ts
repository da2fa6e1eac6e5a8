#!/usr/bin/env node
/**
 * The command line: `unshard CHECKPOINT OUT`. What a command needs is loaded once it is known, so that help is there at once.
 *
 * @module
 */

import { version } from '../../package.json';
import { isAbort, isUnshardError } from '../base/errors.js';
import { errorText } from './advice.js';
import { parseCommand } from './arguments.js';
import { EXIT_CANCELLED, EXIT_CODES, EXIT_INTERNAL } from './exit.js';
import { HELP } from './help.js';
import { printable } from './printable.js';

const args = process.argv.slice(2);
const cancel = new AbortController();
process.once('SIGINT', () => cancel.abort());
process.once('SIGTERM', () => cancel.abort());

try {
  const command = parseCommand(args);
  if (command.kind === 'help') process.stdout.write(HELP);
  else if (command.kind === 'version') process.stdout.write(`${version}\n`);
  else process.exitCode = await (await import('./commands.js')).runCommand(command, cancel.signal);
} catch (error) {
  process.exitCode = tellError(error, args.includes('--json'));
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
