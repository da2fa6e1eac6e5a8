/**
 * The seams between Unshard and the world: bytes to read, bytes to write, folders of both. Adapters in this folder
 * implement them for `File`, File System Access, OPFS, Node and memory. Nothing else knows where bytes live.
 *
 * @module
 */

/** A file that can be read at any offset. It is never written. */
export interface ByteSource {
  /** Path shown to the user and put in errors. */
  readonly name: string;
  /** Size in bytes when it was opened. */
  readonly size: number;
  /** Time of the last change, in milliseconds since 1970; 0 where it is not known. */
  readonly modified: number;
  /**
   * What another thread needs to open the file again, through the adapter that made this source: it can be cloned.
   * Absent where only this thread can read it.
   */
  readonly place?: unknown;
  /**
   * Fills `into` with the bytes `[offset, offset + into.byteLength)`.
   *
   * @throws UnshardError of kind `source` when the range is not all there, or the file cannot be read or has changed.
   */
  read(offset: number, into: Uint8Array, signal?: AbortSignal): Promise<void>;
  /** The bytes `[offset, offset + length)` where they are in memory already, not to be changed; undefined where they are not. */
  held?(offset: number, length: number): Uint8Array<ArrayBuffer> | undefined;
  /** Frees what the source holds. Reading after it is an error. */
  close(): Promise<void>;
}

/** What can be done with a file that is being written, by all threads that write to it. */
export interface SharedSink {
  /**
   * Writes `bytes` at `offset`. Any order, several at once. `bytes` may be reused once the promise has settled.
   *
   * @throws UnshardError of kind `sink`.
   */
  write(offset: number, bytes: Uint8Array): Promise<void>;
  /**
   * Fills `into` with what was written at `offset`. Absent where only a closed file can be read.
   *
   * @throws UnshardError of kind `sink`.
   */
  read?(offset: number, into: Uint8Array): Promise<void>;
}

/** A file being written, as another thread than that of its sink has opened it. */
export interface OpenSink extends SharedSink {
  /** Lets go of the file, which is not complete by that. */
  release(): Promise<void>;
}

/** A file being written. Nothing appears under its name before `close`. */
export interface ByteSink extends SharedSink {
  /**
   * What another thread needs to write to the file as well, through the adapter that made this sink: it can be cloned.
   * Absent where only this thread can write it.
   */
  readonly place?: unknown;
  /** Makes the file appear under its name, complete. */
  close(): Promise<void>;
  /** Drops what was written. The name is left as it was before. Never rejects. */
  abort(): Promise<void>;
}

/** A name in a folder. */
export interface TreeEntry {
  readonly name: string;
  readonly kind: 'file' | 'directory';
}

/** A folder to read from. Paths are relative, with `/`; the root is the empty string. */
export interface FileTree {
  /** The folder's own name, shown to the user. */
  readonly name: string;
  /** The entries of one folder, in no particular order. Rejects with kind `source` where there is no such folder. */
  list(path: string): Promise<TreeEntry[]>;
  /** Opens a file. Rejects with kind `source` where there is none. */
  open(path: string): Promise<ByteSource>;
}

/** A folder to write to. */
export interface OutputTree {
  /** The folder's own name, shown to the user. */
  readonly name: string;
  /** True where a file of this name is there. */
  has(path: string): Promise<boolean>;
  /** Starts a file of a known size. An existing one stays untouched until `close`. */
  create(path: string, byteLength: number): Promise<ByteSink>;
  /** Opens a finished file, to read it back. */
  open(path: string): Promise<ByteSource>;
  /** Removes a finished file; nothing happens where there is none. */
  remove(path: string): Promise<void>;
}

/** A folder that several processes write to, on one machine or many. */
export interface SharedOutput extends OutputTree {
  /** Removes what writers of files of these names left unfinished. One that is still at it then fails to close its file. */
  sweep(paths: readonly string[]): Promise<void>;
  /** Removes a sub-folder and all that is in it; nothing happens where there is none. */
  removeFolder(path: string): Promise<void>;
}
