/** Adds up the time in which at least one of several overlapping waits was under way. */
export class Waiting {
  #seconds = 0;
  #since = 0;
  #waits = 0;

  /** Seconds so far, those of waits that have not ended included. */
  get seconds(): number {
    return this.#seconds + (this.#waits > 0 ? (performance.now() - this.#since) / 1000 : 0);
  }

  /** Waits for a promise and gives what it gives. */
  async during<T>(promise: Promise<T>): Promise<T> {
    if (this.#waits++ === 0) this.#since = performance.now();
    try {
      return await promise;
    } finally {
      if (--this.#waits === 0) this.#seconds += (performance.now() - this.#since) / 1000;
    }
  }
}
