/**
 * What the interpreter refuses to do more of. The counts bound time and memory before either is spent; an honest
 * checkpoint of 100,000 tensors stays an order of magnitude below each.
 *
 * @module
 */

/** Largest pickle in bytes. A state dict takes about 90 bytes per tensor; random states and arguments come on top. */
export const MAX_PICKLE_BYTES = 512 * 2 ** 20;

/** Opcodes executed. A state dict takes about 30 per tensor. */
export const MAX_OPCODES = 50_000_000;

/** Values on the stack at once. Python's pickler writes lists and dicts in batches of 1,000. */
export const MAX_STACK = 1_000_000;

/** Marks open at once: the nesting of tuples of more than three items and of lists and dicts of more than one. */
export const MAX_MARKS = 10_000;

/** Values that can be fetched again. Python's pickler remembers every string, tuple, list and dict. */
export const MAX_MEMO = 10_000_000;

/**
 * Lists, tuples, dicts, sets, bytes and objects made. A tensor of a state dict takes seven. An object without content
 * takes a few bytes of the pickle and about 300 of memory.
 */
export const MAX_CONTAINERS = 5_000_000;

/** Items of one dict, members of one set. A JavaScript `Map` cannot hold more than 2^24. */
export const MAX_ITEMS = 10_000_000;

/** Length of one string or bytes value in bytes. */
export const MAX_STRING_BYTES = 64 * 2 ** 20;

/** Length of one number in bytes, or digits. Nothing that counts bytes needs more than eight. */
export const MAX_NUMBER_BYTES = 1024;

/** Length of the name of a module, class or function in bytes. */
export const MAX_GLOBAL_NAME_BYTES = 1024;
