/**
 * Chooses how many tiles are under way at once, by what is measured: another one is tried, and stays where the bytes come
 * faster with it. What one disk does best with makes another one seek.
 *
 * @module
 */

/** Tiles under way at the start: while one is written, the next is read. */
const FIRST_LANES = 2;

/** Tiles of each lane that a measurement takes. */
const TILES_PER_LANE = 3;

/** A lane more or less stays where it makes the run faster by this share. */
const WORTH = 0.05;

/** Measurements that a number of lanes is left as it is after a try that was not worth it. */
const PATIENCE = 4;

/** How many tiles are under way at once. */
export interface Lanes {
  readonly lanes: number;
  /** Takes note of a tile that is done. */
  add(bytes: number): void;
}

/** How many lanes a run has. */
export class Pace implements Lanes {
  readonly #most: number;
  readonly #least: number;
  readonly #now: () => number;
  #lanes: number;
  /** Whether the next try is a lane more or less. */
  #way: 1 | -1 = 1;
  /** Bytes a second before the try that is under way; undefined where none is. */
  #before: number | undefined;
  #rest = 0;
  #since: number | undefined;
  #bytes = 0;
  #tiles = 0;

  /** At most `most` lanes, and, as far as that allows, at least `least`. `now` gives milliseconds. */
  constructor(most: number, least = 1, now: () => number = () => performance.now()) {
    this.#most = most;
    this.#least = Math.min(least, most);
    this.#now = now;
    this.#lanes = Math.max(this.#least, Math.min(FIRST_LANES, most));
  }

  /** Tiles that may be under way now. */
  get lanes(): number {
    return this.#lanes;
  }

  /** Takes note of a tile that is written. */
  add(bytes: number): void {
    const now = this.#now();
    // The first tile of a measurement was begun before it.
    if (this.#since === undefined) {
      this.#since = now;
      return;
    }
    this.#bytes += bytes;
    this.#tiles++;
    const seconds = (now - this.#since) / 1000;
    if (this.#tiles < TILES_PER_LANE * this.#lanes || seconds <= 0) return;
    this.#judge(this.#bytes / seconds);
    this.#since = undefined;
    this.#bytes = 0;
    this.#tiles = 0;
  }

  #judge(rate: number): void {
    const before = this.#before;
    this.#before = undefined;
    if (before !== undefined && rate < before * (1 + WORTH)) {
      this.#lanes -= this.#way;
      this.#turn();
    } else if (this.#rest > 0) this.#rest--;
    else this.#try(rate);
  }

  /** Takes a lane more or less, if there is one to take. */
  #try(rate: number): void {
    const lanes = this.#lanes + this.#way;
    if (lanes < this.#least || lanes > this.#most) {
      this.#turn();
      return;
    }
    this.#lanes = lanes;
    this.#before = rate;
  }

  /** The next try, after a while, is the other way. */
  #turn(): void {
    this.#way = this.#way === 1 ? -1 : 1;
    this.#rest = PATIENCE;
  }
}
