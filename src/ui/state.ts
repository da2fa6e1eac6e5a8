/**
 * The page as one union: every stage holds exactly what it shows. What happens outside (the engine, pickers, storage)
 * arrives as events.
 *
 * @module
 */

import type { InspectProgress } from '../index.js';
import type {
  BackendChoice,
  CheckpointView,
  Collisions,
  Converter,
  ConvertProgress,
  FolderFile,
  InputRef,
  Outcome,
  OutputRef,
  PlanView,
} from '../worker/protocol.js';
import type { Choices } from './choices.js';
import type { Failure } from './failure.js';
import type { Reading } from './reading.js';
import type { Sample } from './speed.js';

/** A checkpoint folder that was picked. */
export interface Source {
  readonly name: string;
  readonly ref: InputRef;
}

/** Where to write. */
export interface Destination {
  readonly name: string;
  readonly ref: OutputRef;
}

/** The browser's downloads. */
export const DOWNLOAD: Destination = { name: 'Downloads', ref: { kind: 'download' } };

/** Waiting for a folder. `notice` says why the last attempt led nowhere. */
export interface PickState {
  readonly stage: 'pick';
  readonly notice?: string;
}

/** Reading a checkpoint's structure. */
export interface InspectingState {
  readonly stage: 'inspecting';
  readonly source: Source;
  /** Absent for the one that the checkpoint names as its latest. */
  readonly tag?: string;
  readonly reading: Reading;
  readonly progress?: InspectProgress;
  /** Where a cancel or a failure leads back to: the plan, when another tag or a further folder is looked at. */
  readonly from: PickState | PlanState;
}

/** What the choices come to. */
export type Planning =
  /** The choices have changed; `last` is the plan of earlier ones. */
  | { readonly kind: 'working'; readonly last?: PlanView }
  | { readonly kind: 'made'; readonly plan: PlanView }
  | { readonly kind: 'refused'; readonly failure: Failure }
  /** The size that was typed is none. */
  | { readonly kind: 'incomplete'; readonly last?: PlanView };

/** Showing what was found and what will be written. */
export interface PlanState {
  readonly stage: 'plan';
  readonly source: Source;
  readonly checkpoint: CheckpointView;
  /** How it was read. */
  readonly reading: Reading;
  readonly choices: Choices;
  readonly planning: Planning;
  readonly destination?: Destination;
  /** Names of the plan that are taken at the destination; absent until they were looked up. */
  readonly collisions?: Collisions;
  /** The user agreed to replace existing files. */
  readonly overwrite: boolean;
  /** How many bytes of the plan downloads may take; null where that cannot be found out, absent until it was asked. */
  readonly space?: number | null;
  /** What the choices of backend come to on this machine, as far as they were looked up; null cannot be had. */
  readonly converters: Readonly<Partial<Record<BackendChoice, Converter | null>>>;
  /** The user has just cancelled a run. */
  readonly cancelled?: true;
  /** Why the last attempt to choose a destination led nowhere, or what a cancelled run has left. */
  readonly notice?: string;
}

/** Converting. */
export interface RunningState {
  readonly stage: 'running';
  readonly from: PlanState;
  readonly plan: PlanView;
  readonly destination: Destination;
  readonly progress?: ConvertProgress;
  /** Bytes written over time, to tell the speed. */
  readonly samples: readonly Sample[];
  /** Downloads that the browser was given to save, as far as their copies are kept. */
  readonly downloads: readonly FolderFile[];
  /** All that it was given to save. */
  readonly saved: readonly string[];
  /** When the time began in which nothing but reading back goes on, by the clock of the samples. */
  readonly readingSince?: number;
  readonly cancelling: boolean;
}

/** Done. */
export interface ReportState {
  readonly stage: 'report';
  readonly from: PlanState;
  readonly destination: Destination;
  readonly plan: PlanView;
  readonly outcome: Outcome;
  /** Downloads of which copies are kept. */
  readonly downloads: readonly FolderFile[];
}

/** Something went wrong. */
export interface FailedState {
  readonly stage: 'failed';
  readonly failure: Failure;
  readonly from: PickState | PlanState;
  /** Files of a failed run that the browser has saved before. */
  readonly saved?: readonly string[];
  /** How to read again without a damaged file, where that may do. */
  readonly retry?: Pick<InspectingState, 'source' | 'tag' | 'reading'>;
}

/** The page. */
export type State = PickState | InspectingState | PlanState | RunningState | ReportState | FailedState;

/** The name of a stage. */
export type Stage = State['stage'];

/** Everything that can happen. */
export type Event =
  | { readonly type: 'opened'; readonly source: Source }
  /** A further folder with shards of the checkpoint. */
  | { readonly type: 'added'; readonly source: Source }
  | { readonly type: 'tag'; readonly tag: string }
  /** Read again in another way. */
  | { readonly type: 'read'; readonly reading: Reading }
  | { readonly type: 'notice'; readonly message: string }
  | { readonly type: 'inspect-progress'; readonly progress: InspectProgress }
  | { readonly type: 'inspected'; readonly checkpoint: CheckpointView }
  | { readonly type: 'chose'; readonly choices: Partial<Choices> }
  | { readonly type: 'planned'; readonly plan: PlanView }
  | { readonly type: 'refused'; readonly failure: Failure }
  | { readonly type: 'converter'; readonly choice: BackendChoice; readonly converter: Converter | null }
  | { readonly type: 'destination'; readonly destination: Destination }
  | { readonly type: 'collisions'; readonly collisions: Collisions }
  | { readonly type: 'space'; readonly space: number | null }
  | { readonly type: 'overwrite'; readonly overwrite: boolean }
  | { readonly type: 'started'; readonly now: number }
  | { readonly type: 'run-progress'; readonly progress: ConvertProgress; readonly now: number }
  /** The browser was given a file to save. */
  | { readonly type: 'downloaded'; readonly file: FolderFile }
  /** The copies of saved files were removed. */
  | { readonly type: 'let-go'; readonly paths: readonly string[] }
  | { readonly type: 'cancelling' }
  | { readonly type: 'cancelled' }
  | { readonly type: 'finished'; readonly outcome: Outcome }
  | { readonly type: 'failed'; readonly failure: Failure }
  /** To the plan that led here, or to the folder's choice where there was none. */
  | { readonly type: 'back' }
  /** To the choice of a folder. */
  | { readonly type: 'restart' };

/** How a view or an effect tells what happened. */
export type Send = (event: Event) => void;

/** The page before anything happened. */
export const START: State = { stage: 'pick' };

/** True where a part may be had without the files that are at fault, or is already taken. */
export function offersPartial({ reading, checkpoint }: Pick<PlanState, 'reading' | 'checkpoint'>): boolean {
  const hasCopies = checkpoint.layout === 'deepspeed-zero1' || checkpoint.layout === 'deepspeed-zero2';
  return reading.partial || lacksShards(checkpoint) || (hasCopies && checkpoint.problems.length > 0);
}

/** How many folders a checkpoint is read from. */
export function folderCount({ ref }: Source): number {
  return ref.kind === 'several' ? ref.parts.length : 1;
}

/** True where shards are missing, which another folder may hold. */
export function lacksShards({ problems }: Pick<CheckpointView, 'problems'>): boolean {
  return problems.some(({ kind }) => kind === 'missing-shard');
}

/** The newest plan there is, be it of earlier choices. */
export function lastPlan({ planning }: PlanState): PlanView | undefined {
  if (planning.kind === 'made') return planning.plan;
  return planning.kind === 'refused' ? undefined : planning.last;
}
