/**
 * Small calls to the disk. Where it answers at once, as from the page cache, a call that blocks takes microseconds, and one
 * that another thread makes takes tens of them, most of it to wake that thread. Where it answers late, many calls have to
 * be under way at once.
 *
 * @module
 */

/** What a blocking call may take on average: about what it costs to have another thread make it (0.1 ms). */
const QUICK_MS = 0.1;

/** Blocking calls may take so much longer in all (5 ms): the first ones, or where the machine is busy. */
const GRACE_MS = 5;

/** After so much time with blocking calls everything else gets its turn (10 ms). */
const TURN_MS = 10;

/** Decides for each call how it is made. Once the calls were late, no further one blocks. */
export class QuickCalls {
  readonly #takeTurn: () => Promise<void>;
  readonly #now: () => number;
  #calls = 0;
  #spent = 0;
  #turn: number;

  /** `takeTurn` lets everything else have its turn; `now` gives milliseconds. */
  constructor(takeTurn: () => Promise<void>, now: () => number = () => performance.now()) {
    this.#takeTurn = takeTurn;
    this.#now = now;
    this.#turn = now();
  }

  /** Makes a call: `blocking` while calls are quick, else `job`. Gives what the one gives that was made. */
  async make<T>(blocking: () => T, job: () => Promise<T>): Promise<T> {
    if (this.#spent > GRACE_MS + this.#calls * QUICK_MS) return job();
    if (this.#now() - this.#turn > TURN_MS) {
      await this.#takeTurn();
      this.#turn = this.#now();
    }
    const begun = this.#now();
    try {
      return blocking();
    } finally {
      this.#calls++;
      this.#spent += this.#now() - begun;
    }
  }
}
