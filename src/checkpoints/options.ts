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
   * Take what can still be had where files of ranks are missing or damaged. What lies wholly in other files is read as
   * ever; of the rest the model file's copy is taken at stage 1 and 2, and what has none is skipped. The warning `partial`
   * says so. A whole checkpoint is read as ever. Default false.
   */
  readonly partial?: boolean;
  /**
   * Files to do without as if they were not there: paths in the picked folder, or names; `*` stands for any characters.
   * Where any is given, `partial` is true.
   */
  readonly lost?: readonly string[];
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
  /** Present as soon as the first file of each kind was opened, which is before all others. */
  readonly facts?: FirstFacts;
}

/**
 * What the first files say of the whole checkpoint, before anything was compared. With model parallelism the parameters are
 * those of the first part.
 */
export interface FirstFacts {
  /** Absent where the files do not say. */
  readonly stage?: number;
  /** Data-parallel ranks. */
  readonly ranks: number;
  readonly parameters: number;
  readonly elements: number;
  readonly deepspeedVersion?: string;
  readonly globalSteps?: number;
}
