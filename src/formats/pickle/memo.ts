import type { PyValue } from './values.js';

/**
 * The values that a pickle may fetch again, by index. Picklers number them from 0 on without a gap, for which an array
 * is several times as fast as a map; a hostile pickle may use any index up to 2^53, which must not make the array long.
 */
export class Memo {
  readonly #dense: PyValue[] = [];
  readonly #sparse = new Map<number, PyValue>();

  /** Number of values. */
  get size(): number {
    return this.#dense.length + this.#sparse.size;
  }

  set(index: number, value: PyValue): void {
    if (index > this.#dense.length) {
      this.#sparse.set(index, value);
      return;
    }
    if (index === this.#dense.length && this.#sparse.size > 0) this.#sparse.delete(index);
    this.#dense[index] = value;
  }

  /** The value of an index; undefined where none was set. */
  get(index: number): PyValue | undefined {
    return index < this.#dense.length ? this.#dense[index] : this.#sparse.get(index);
  }
}
