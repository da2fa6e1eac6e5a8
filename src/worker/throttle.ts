/**
 * Progress at the pace of a reader: an engine may report thousands of times a second, a page needs about ten.
 *
 * @module
 */

/** A throttled stream. */
export interface Throttle<T> {
  /** Passes the value on now or within one interval, unless a newer one replaces it. */
  push(value: T): void;
  /** Passes on what is held back, at once. */
  flush(): void;
  /** Passes on what is held back, and stops. */
  stop(): void;
}

/** Calls `emit` at most once in `intervalMs` milliseconds, with the newest value; the last one is never lost. */
export function throttle<T>(emit: (value: T) => void, intervalMs: number): Throttle<T> {
  let held: { readonly value: T } | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function release(): void {
    timer = undefined;
    if (!held) return;
    const { value } = held;
    held = undefined;
    timer = setTimeout(release, intervalMs);
    emit(value);
  }

  function flush(): void {
    clearTimeout(timer);
    release();
  }

  return {
    push(value) {
      held = { value };
      if (timer === undefined) release();
    },
    flush,
    stop() {
      flush();
      clearTimeout(timer);
      timer = undefined;
    },
  };
}
