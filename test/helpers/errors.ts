import { type ErrorDetail, UnshardError } from '../../src/base/errors.js';

/** The detail of the `UnshardError` that a call throws. Anything else that is thrown, or nothing, fails the test. */
export function detailOf(call: () => unknown): ErrorDetail {
  try {
    call();
  } catch (error) {
    if (error instanceof UnshardError) return error.detail;
    throw error;
  }
  throw new Error('nothing was thrown');
}

/** The detail of the `UnshardError` that a promise rejects with. */
export async function rejectionOf(promise: PromiseLike<unknown>): Promise<ErrorDetail> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof UnshardError) return error.detail;
    throw error;
  }
  throw new Error('nothing was thrown');
}
