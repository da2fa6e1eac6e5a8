/** A fixed number of slots that many callers take turns with, in the order in which they ask. */
export class Ring<Slot> {
  readonly #free: Slot[];
  readonly #waiting: ((slot: Slot) => void)[] = [];

  constructor(slots: readonly Slot[]) {
    this.#free = [...slots];
  }

  /** Runs `work` with a slot that is its own until its promise settles. */
  async use<T>(work: (slot: Slot) => Promise<T>): Promise<T> {
    const slot = this.#free.pop() ?? (await new Promise<Slot>((resolve) => this.#waiting.push(resolve)));
    try {
      return await work(slot);
    } finally {
      const next = this.#waiting.shift();
      if (next) next(slot);
      else this.#free.push(slot);
    }
  }
}
