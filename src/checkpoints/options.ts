/** Options of `inspect`. */
export interface InspectOptions {
  /** Tag to read, by its name or its path in the folder. Default: the one that `latest` names. */
  readonly tag?: string;
  readonly signal?: AbortSignal;
  /** Called after each file that was opened. */
  readonly onProgress?: (progress: InspectProgress) => void;
}

/** Files opened so far. */
export interface InspectProgress {
  readonly done: number;
  readonly total: number;
  readonly file: string;
}
