/**
 * Errors from one thread to another, as data. comlink alone would keep only the message; here an `UnshardError` arrives
 * as an `UnshardError` and a cancel as an `AbortError`.
 *
 * @module
 */

import { type TransferHandler, transferHandlers } from 'comlink';
import { type ErrorDetail, isAbort, messageOf, UnshardError } from '../../base/errors.js';

/** What crosses for an error. */
export type WireError =
  | { readonly kind: 'unshard'; readonly detail: ErrorDetail }
  | { readonly kind: 'abort'; readonly message: string }
  | { readonly kind: 'other'; readonly name: string; readonly message: string; readonly stack?: string };

/** The data of anything that was thrown. */
export function toWire(error: unknown): WireError {
  if (error instanceof UnshardError) return { kind: 'unshard', detail: error.detail };
  if (isAbort(error)) return { kind: 'abort', message: messageOf(error) };
  if (!(error instanceof Error)) return { kind: 'other', name: 'Error', message: String(error) };
  const { name, message, stack } = error;
  return { kind: 'other', name, message, ...(stack === undefined ? {} : { stack }) };
}

/** The error that `toWire` took apart. */
export function fromWire(wire: WireError): Error {
  if (wire.kind === 'unshard') return new UnshardError(wire.detail);
  if (wire.kind === 'abort') return new DOMException(wire.message, 'AbortError');
  return Object.assign(new Error(wire.message), {
    name: wire.name,
    ...(wire.stack === undefined ? {} : { stack: wire.stack }),
  });
}

/** Replaces comlink's own handler of thrown values. Both sides call it once, before the first message. */
export function registerErrorHandler(): void {
  const builtIn = transferHandlers.get('throw');
  // Only the built-in handler knows comlink's private mark of a thrown value.
  if (builtIn) transferHandlers.set('throw', { ...handler, canHandle: builtIn.canHandle });
}

const handler: Omit<TransferHandler<unknown, unknown>, 'canHandle'> = {
  serialize: (thrown) => [toWire((thrown as { value: unknown }).value), []],
  deserialize: (wire) => {
    throw fromWire(wire as WireError);
  },
};
