/** Options of `inspect`. */
export interface InspectOptions {
  /** Tag to read, by its name or its path in the folder. Default: the one that `latest` names. */
  readonly tag?: string;
  /**
   * How the shards of tensor-parallel ranks make up a tensor. The first rule whose pattern matches the name decides, before
   * what the checkpoint itself says.
   */
  readonly tpRules?: readonly TpRule[];
  /** Take the shards of this tensor-parallel rank alone, as they are. Default: the shards of all ranks are joined. */
  readonly tpRank?: number;
  /**
   * Do without the optimizer files where they are missing or damaged and the model file has a copy of every weight (stage 1
   * and 2). The warning `partial` says so. A whole checkpoint is read as ever. Default false.
   */
  readonly partial?: boolean;
  readonly signal?: AbortSignal;
  /** Called after each file that was opened. */
  readonly onProgress?: (progress: InspectProgress) => void;
}

/** How the tensors of some names are joined. */
export interface TpRule {
  /** `*` stands for any characters. The whole name must match. */
  readonly pattern: string;
  readonly merge: TpMerge;
}

/** One copy for all ranks, which must be equal; the mean of all copies; or shards one after another along a dimension. */
export type TpMerge = 'replicated' | 'average' | number;

/** Files opened so far. */
export interface InspectProgress {
  readonly done: number;
  readonly total: number;
  readonly file: string;
}
