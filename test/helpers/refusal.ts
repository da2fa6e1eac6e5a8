import { type ErrorDetail, UnshardError } from '../../src/base/errors.js';

/** The detail of the `UnshardError` that `action` rejects with. Anything else it does is thrown as it is. */
export async function refusalOf(action: () => unknown): Promise<ErrorDetail> {
  try {
    await action();
  } catch (error) {
    if (error instanceof UnshardError) return error.detail;
    throw error;
  }
  throw new Error('Nothing was refused.');
}
