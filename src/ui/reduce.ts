/**
 * From one state of the page to the next. Pure.
 *
 * @module
 */

import type { CheckpointView, ConvertProgress } from '../worker/protocol.js';
import { type Choices, choicesFor, DEFAULT_CHOICES, planOptions } from './choices.js';
import { isReadingBack } from './closing.js';
import type { Failure } from './failure.js';
import { obstacle } from './obstacle.js';
import { PLAIN_READING, type Reading } from './reading.js';
import { savedText } from './save.js';
import { addSample } from './speed.js';
import {
  type Event,
  type FailedState,
  type InspectingState,
  lastPlan,
  type PlanState,
  type ReportState,
  type RunningState,
  type Source,
  START,
  type State,
} from './state.js';

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
      return { ...lookAgain(from), cancelled: true, ...(saved.length > 0 ? { notice: savedText(saved) } : {}) };
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
function lookAgain({ collisions: _, space: __, cancelled: ___, ...state }: PlanState): PlanState {
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
