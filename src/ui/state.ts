/**
 * The page as one union: every stage holds exactly what it shows. `reduce` is pure; what happens outside (the engine,
 * pickers, storage) arrives as events.
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
import { type Choices, choicesFor, DEFAULT_CHOICES, planOptions } from './choices.js';
import { isReadingBack } from './closing.js';
import type { Failure } from './failure.js';
import { obstacle } from './obstacle.js';
import { PLAIN_READING, type Reading } from './reading.js';
import { savedText } from './save.js';
import { addSample, type Sample } from './speed.js';

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

/** The next state. An event that does not belong to the stage changes nothing: it comes from a job that was left. */
export function reduce(state: State, event: Event): State {
  switch (event.type) {
    case 'opened':
      return state.stage === 'running'
        ? state
        : { stage: 'inspecting', source: event.source, reading: PLAIN_READING, from: { stage: 'pick' } };
    case 'restart':
      return state.stage === 'running' ? state : START;
    case 'notice':
      return state.stage === 'pick' || state.stage === 'plan' ? { ...state, notice: event.message } : state;
    default:
  }
  switch (state.stage) {
    case 'pick':
      return state;
    case 'inspecting':
      return reduceInspecting(state, event);
    case 'plan':
      return reducePlan(state, event);
    case 'running':
      return reduceRunning(state, event);
    case 'report':
      if (event.type === 'let-go') return letGo(state, event.paths);
      return event.type === 'back' ? withoutDestination(state.from) : state;
    case 'failed':
      if (event.type === 'read' && state.retry) {
        return { stage: 'inspecting', ...state.retry, reading: event.reading, from: state.from };
      }
      return event.type === 'back' ? state.from : state;
  }
}

function reduceInspecting(state: InspectingState, event: Event): State {
  switch (event.type) {
    case 'inspect-progress':
      return { ...state, progress: event.progress };
    case 'inspected':
      return planOf(state, event.checkpoint);
    case 'cancelled':
      return state.from;
    case 'failed':
      return { stage: 'failed', failure: event.failure, from: state.from, ...retryOf(state, event.failure) };
    default:
      return state;
  }
}

/** A reading without the damaged file that made the last one, or the run of what it found, fail. */
function retryOf(
  { source, tag, reading }: Pick<InspectingState, 'source' | 'tag' | 'reading'>,
  { lostFile }: Failure,
): Pick<FailedState, 'retry'> {
  if (lostFile === undefined || reading.lost.includes(lostFile)) return {};
  const without = { ...reading, partial: true, lost: [...reading.lost, lostFile] };
  return { retry: { source, reading: without, ...(tag === undefined ? {} : { tag }) } };
}

/** The plan stage of a checkpoint. Another tag of the same folder, or a further folder, keeps choices and destination. */
function planOf({ source, reading, from }: InspectingState, checkpoint: CheckpointView): PlanState {
  const fresh = {
    stage: 'plan',
    source,
    checkpoint,
    reading,
    planning: { kind: 'working' },
    overwrite: false,
  } as const;
  if (from.stage === 'pick') return { ...fresh, choices: choicesFor(DEFAULT_CHOICES, checkpoint), converters: {} };
  const { converters, destination } = from;
  const choices = choicesFor(from.choices, checkpoint);
  return { ...fresh, choices, converters, ...(destination ? { destination } : {}) };
}

function reducePlan(state: PlanState, event: Event): State {
  switch (event.type) {
    case 'added':
      return readAgain(state, { source: join(state.source, event.source), reading: wholeAgain(state.reading) });
    case 'tag': {
      // The ranks of another tag may be numbered otherwise.
      const { tpRank: _, ...reading } = wholeAgain(state.reading);
      return readAgain(state, { tag: event.tag, reading });
    }
    case 'read':
      return readAgain(state, { reading: event.reading });
    case 'chose':
      return choose(state, { ...state.choices, ...event.choices });
    case 'planned':
      return { ...state, planning: { kind: 'made', plan: event.plan } };
    case 'refused':
      return { ...state, planning: { kind: 'refused', failure: event.failure } };
    case 'converter':
      return { ...state, converters: { ...state.converters, [event.choice]: event.converter } };
    case 'destination':
      return { ...withoutDestination(state), destination: event.destination };
    case 'collisions':
      return { ...state, collisions: event.collisions };
    case 'space':
      return { ...state, space: event.space };
    case 'overwrite':
      return { ...state, overwrite: event.overwrite };
    case 'started':
      return start(state, event.now);
    case 'failed':
      // Without the destination: it may be what failed, and would fail again on the way back.
      return { stage: 'failed', failure: event.failure, from: withoutDestination(state) };
    default:
      return state;
  }
}

/** Reads what the plan is of once more, but for what `change` says. */
function readAgain(from: PlanState, change: Partial<InspectingState>): InspectingState {
  const { source, reading } = from;
  return { stage: 'inspecting', source, tag: tagOf(from), reading, ...change, from };
}

/** What was given up for want of a file may be there now. */
function wholeAgain(reading: Reading): Reading {
  return { ...reading, partial: false, lost: [] };
}

function tagOf({ checkpoint: { tag } }: PlanState): string {
  return tag.path || tag.tag;
}

/** A checkpoint with one more folder of shards. */
function join({ name, ref }: Source, added: Source): Source {
  const parts = ref.kind === 'several' ? ref.parts : [ref];
  return { name, ref: { kind: 'several', parts: [...parts, added.ref] } };
}

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

/** New choices make the plan out of date, and with it what is known of the names that it takes. */
function choose(old: PlanState, choices: Choices): PlanState {
  const state = lookAgain(old);
  const last = lastPlan(state);
  const kind = planOptions(choices) ? 'working' : 'incomplete';
  return { ...state, choices, planning: { kind, ...(last ? { last } : {}) } };
}

function withoutDestination({ destination: _, notice: __, ...state }: PlanState): PlanState {
  return lookAgain(state);
}

function start(state: PlanState, now: number): State {
  const { planning, destination } = state;
  if (obstacle(state) !== undefined || planning.kind !== 'made' || !destination) return state;
  const { plan } = planning;
  const samples = [{ at: now, bytes: 0 }];
  return { stage: 'running', from: state, plan, destination, samples, downloads: [], saved: [], cancelling: false };
}

function reduceRunning(state: RunningState, event: Event): State {
  const { from, destination, plan, downloads, saved } = state;
  switch (event.type) {
    case 'run-progress': {
      const progress = unanswered(event.progress, state);
      const samples = addSample(state.samples, { at: event.now, bytes: progress.written });
      const since = isReadingBack(progress) && state.readingSince === undefined ? { readingSince: event.now } : {};
      return { ...state, progress, samples, ...since };
    }
    case 'downloaded':
      return { ...state, downloads: [...downloads, event.file], saved: [...saved, event.file.path] };
    case 'let-go': {
      const left = letGo(state, event.paths);
      return state.progress ? { ...left, progress: unanswered(state.progress, left) } : left;
    }
    case 'cancelling':
      return { ...state, cancelling: true };
    case 'cancelled':
      return { ...lookAgain(from), ...(saved.length > 0 ? { notice: savedText(saved) } : {}) };
    case 'finished':
      return { stage: 'report', from, destination, plan, outcome: event.outcome, downloads };
    case 'failed':
      return {
        stage: 'failed',
        failure: event.failure,
        from: lookAgain(from),
        ...(saved.length > 0 ? { saved } : {}),
        ...retryOf({ ...from, tag: tagOf(from) }, event.failure),
      };
    default:
      return state;
  }
}

/** What is known of the destination is to be looked up again: a run may have left finished files behind. */
function lookAgain({ collisions: _, space: __, ...state }: PlanState): PlanState {
  return { ...state, overwrite: false };
}

function letGo<S extends RunningState | ReportState>(state: S, paths: readonly string[]): S {
  return { ...state, downloads: state.downloads.filter(({ path }) => !paths.includes(path)) };
}

/**
 * Progress without a wait that the user has answered: the worker said so before it heard of the answer. Where space is
 * still wanting, the next wait no longer names the files that were let go.
 */
function unanswered(progress: ConvertProgress, { saved, downloads }: RunningState): ConvertProgress {
  const { wait, ...others } = progress;
  const gone = new Set(saved);
  for (const { path } of downloads) gone.delete(path);
  return wait?.kept.some((path) => gone.has(path)) ? others : progress;
}

/** The newest plan there is, be it of earlier choices. */
export function lastPlan({ planning }: PlanState): PlanView | undefined {
  if (planning.kind === 'made') return planning.plan;
  return planning.kind === 'refused' ? undefined : planning.last;
}
