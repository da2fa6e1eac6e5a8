/**
 * The state of the pickle interpreter: stack, marks, memo, and the checks on what may be done to which value.
 *
 * @module
 */

import { construct, type Reducer } from './construct.js';
import { MAX_CONTAINERS, MAX_ITEMS, MAX_MARKS, MAX_MEMO, MAX_STACK } from './limits.js';
import { Memo } from './memo.js';
import type { PickleStream } from './stream.js';
import { PyGlobal, PyObject, type PyValue } from './values.js';

/** What the caller makes of the values that pickle leaves to it. */
export interface Hooks {
  readonly persistentLoad?: ((id: PyValue) => PyValue) | undefined;
  readonly reducers?: ReadonlyMap<string, Reducer> | undefined;
}

/** One run of the interpreter. */
export class Machine {
  readonly stream: PickleStream;
  readonly globals = new Map<string, PyGlobal>();
  /** Objects that stayed inert records. */
  uninterpreted = 0;
  readonly #hooks: Hooks;
  readonly #stack: PyValue[] = [];
  /** Stack heights where marks lie. Values below the last one cannot be popped. */
  readonly #marks: number[] = [];
  readonly #memo = new Memo();
  /** Maps that stand for dicts whose class lets them have attributes. */
  readonly #attributed = new Set<PyValue>();
  #containers = 0;
  #copied = 0;

  constructor(stream: PickleStream, hooks: Hooks) {
    this.stream = stream;
    this.#hooks = hooks;
  }

  push(value: PyValue): void {
    if (this.#stack.length >= MAX_STACK) this.stream.limit('values on the stack', this.#stack.length + 1, MAX_STACK);
    this.#stack.push(value);
  }

  pop(): PyValue {
    this.#need(1);
    return this.#stack.pop() as PyValue;
  }

  top(): PyValue {
    this.#need(1);
    return this.#stack[this.#stack.length - 1] as PyValue;
  }

  mark(): void {
    this.stream.limit('open marks', this.#marks.length + 1, MAX_MARKS);
    this.#marks.push(this.#stack.length);
  }

  /** Takes the values above the last mark, and the mark. */
  popMark(): PyValue[] {
    const height = this.#marks.pop();
    if (height === undefined) this.stream.fail('pickle-no-mark', 'there is no mark to go back to');
    return this.#stack.splice(height);
  }

  /** Drops the top value, or the mark where it is on top. */
  drop(): void {
    if (this.#marks.at(-1) === this.#stack.length && this.#marks.length > 0) this.#marks.pop();
    else this.pop();
  }

  /** Takes the result: the one value that must be left. */
  finish(): PyValue {
    const value = this.pop();
    if (this.#stack.length > 0 || this.#marks.length > 0) {
      this.stream.fail('pickle-leftover', `${this.#stack.length} values and ${this.#marks.length} marks are left over`);
    }
    return value;
  }

  /** Remembers the top value. `index` defaults to the number of values that are remembered. */
  remember(index = this.#memo.size): void {
    this.#memo.set(index, this.top());
    this.stream.limit('remembered values', this.#memo.size, MAX_MEMO);
  }

  /** Pushes a remembered value. */
  recall(index: number): void {
    const value = this.#memo.get(index);
    if (value === undefined) this.stream.fail('pickle-memo', `no value ${index} was remembered`, { index });
    this.push(value);
  }

  /** Pushes a new list. */
  pushList(items: PyValue[]): void {
    this.countContainer();
    this.push(items);
  }

  /** Pushes a tuple: an array that cannot change. */
  pushTuple(items: PyValue[]): void {
    this.countContainer();
    this.push(Object.freeze(items) as PyValue[]);
  }

  /** Pushes a dict of alternating keys and values. */
  pushDict(items: PyValue[]): void {
    this.countContainer();
    this.push(new Map());
    this.setItems(items);
  }

  /** Pushes a copy of bytes of the pickle. */
  pushBytes(bytes: Uint8Array): void {
    this.countContainer();
    this.push(bytes.slice());
  }

  /** Pushes an empty set. */
  pushSet(): void {
    this.countContainer();
    this.push(new Set());
  }

  /** Pushes a set that cannot change. */
  pushFrozenSet(items: readonly PyValue[]): void {
    this.pushSet();
    this.add(items);
    Object.freeze(this.top());
  }

  /** Pushes a global by name. */
  pushGlobal(module: string, name: string): void {
    const global = new PyGlobal(module, name);
    const known = this.globals.get(global.path);
    if (!known) this.globals.set(global.path, global);
    this.push(known ?? global);
  }

  /** Adds items to the list or object on top. */
  append(items: readonly PyValue[]): void {
    const target = this.top();
    const list = target instanceof PyObject ? target.items : target;
    if (!Array.isArray(list) || Object.isFrozen(list)) this.#wrongTarget('a list', target);
    for (const item of items) list.push(item);
  }

  /** Adds items to the set or object on top. */
  add(items: readonly PyValue[]): void {
    const target = this.top();
    if (target instanceof PyObject) {
      for (const item of items) target.items.push(item);
    } else if (target instanceof Set && !Object.isFrozen(target)) {
      for (const item of items) target.add(this.hashable(item));
      this.stream.limit('members of one set', target.size, MAX_ITEMS);
    } else {
      this.#wrongTarget('a set', target);
    }
  }

  /** Sets alternating keys and values on the dict or object on top. */
  setItems(items: readonly PyValue[]): void {
    const target = this.top();
    const dict = target instanceof PyObject ? target.entries : target;
    if (!(dict instanceof Map)) this.#wrongTarget('a dict', target);
    if (items.length % 2 !== 0) this.stream.fail('pickle-odd-items', 'a key has no value');
    for (let i = 0; i < items.length; i += 2) {
      this.setItem(dict, items[i] as PyValue, items[i + 1] as PyValue);
    }
  }

  /**
   * Sets one item of a dict. Python would let the last of two equal keys win and lose the first without a word; its
   * pickler writes no key twice.
   */
  setItem(dict: Map<PyValue, PyValue>, key: PyValue, value: PyValue): void {
    this.hashable(key);
    if (dict.has(key)) {
      this.stream.fail('pickle-duplicate-key', `the key ${describe(key)} is there twice`, { key: describe(key) });
    }
    if (dict.size >= MAX_ITEMS) this.stream.limit('items of one dict', dict.size + 1, MAX_ITEMS);
    dict.set(key, value);
  }

  /** Gives the object on top its state. */
  build(state: PyValue): void {
    const target = this.top();
    if (target instanceof PyObject) target.state = state;
    else if (!this.#attributed.has(target)) this.#wrongTarget('an object', target);
  }

  /** Pushes what a call of `callable` stands for. */
  reduce(callable: PyValue, args: PyValue, keywords?: PyValue): void {
    if (!Array.isArray(args) || !Object.isFrozen(args)) this.#wrongTarget('a tuple of arguments', args);
    this.countContainer();
    if (callable instanceof PyGlobal && keywords === undefined) {
      const reducer = this.#hooks.reducers?.get(callable.path);
      const known = reducer ? reducer(args) : construct(this, callable, args);
      if (known !== undefined) {
        this.push(known);
        return;
      }
    }
    this.uninterpreted++;
    const parts = keywords === undefined ? args : [args, keywords];
    // A class inside a class is pickled as a call of getattr, and called in turn.
    if (callable instanceof PyObject) this.push(new PyObject(callable.type, [callable, parts]));
    else if (callable instanceof PyGlobal) this.push(new PyObject(callable, parts));
    else this.#wrongTarget('a class or function', callable);
  }

  /** Pushes what the caller keeps under a persistent id. */
  persistent(id: PyValue): void {
    const load = this.#hooks.persistentLoad;
    if (!load) this.stream.fail('pickle-persistent-id', 'this pickle cannot refer to anything outside of it');
    this.countContainer();
    this.push(load(id));
  }

  /** Lets a dict of a known class have attributes, which are ignored. */
  allowAttributes<T extends PyValue>(dict: T): T {
    this.#attributed.add(dict);
    return dict;
  }

  /** Counts a value that is made with an object of its own. */
  countContainer(): void {
    if (++this.#containers > MAX_CONTAINERS) this.stream.limit('containers', this.#containers, MAX_CONTAINERS);
  }

  /**
   * Counts items or bytes that are copied from a value to another. What is copied was pickled for it, so all copies
   * together are shorter than the pickle; a small one cannot copy one remembered value over and over.
   */
  countCopied(items: number): void {
    this.#copied += items;
    this.stream.limit('copied items', this.#copied, this.stream.length);
  }

  /** Checks that a value can be a key or a member of a set. */
  hashable(value: PyValue): PyValue {
    const mutable = value instanceof Map || ((Array.isArray(value) || value instanceof Set) && !Object.isFrozen(value));
    if (mutable) this.stream.fail('pickle-unhashable', `${describe(value)} cannot be a key`);
    return value;
  }

  #need(values: number): void {
    if (this.#stack.length - (this.#marks.at(-1) ?? 0) < values) {
      this.stream.fail('pickle-stack-underflow', 'there is no value to take');
    }
  }

  #wrongTarget(expected: string, target: PyValue): never {
    const found = describe(target);
    this.stream.fail('pickle-wrong-type', `it needs ${expected} and finds ${found}`, { expected, found });
  }
}

/** A value in a few words. Never walks into it: it may be deep, wide or hold itself. */
function describe(value: PyValue): string {
  if (value === null) return 'None';
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 80));
  if (Array.isArray(value)) return Object.isFrozen(value) ? 'a tuple' : 'a list';
  if (value instanceof PyGlobal) return value.path;
  if (value instanceof PyObject) return `an object of ${value.type.path}`;
  if (value instanceof Map) return 'a dict';
  if (value instanceof Set) return 'a set';
  return typeof value === 'object' ? value.constructor.name : String(value).slice(0, 80);
}
