/**
 * What the stages set going in the engine. Each effect starts with the state that needs it and is stopped when the page
 * leaves that state. They are layout effects: others wait for the next frame, and until then an answer to what was asked
 * before would be taken for one to what is asked now.
 *
 * @module
 */

import { useLayoutEffect, useRef } from 'preact/hooks';
import { isAbort, isUnshardError } from '../base/errors.js';
import { blockingProblems } from '../checkpoints/inventory.js';
import type { Engine } from '../worker/client.js';
import { planOptions } from './choices.js';
import { failureOf } from './failure.js';
import { saveFile } from './save.js';
import type { Send, State } from './state.js';

/** Inspects the folder of the inspecting stage. Leaving the stage cancels. */
export function useInspect(engine: Engine, state: State, send: Send): void {
  const inspecting = state.stage === 'inspecting' ? state : undefined;
  useLayoutEffect(() => {
    if (!inspecting) return;
    const { source, tag, reading } = inspecting;
    const job = new AbortController();
    engine
      .inspect(source.ref, {
        ...(tag === undefined ? {} : { tag }),
        ...reading,
        signal: job.signal,
        onProgress: (progress) => send({ type: 'inspect-progress', progress }),
      })
      .then(
        (checkpoint) => !job.signal.aborted && send({ type: 'inspected', checkpoint }),
        (error) => !job.signal.aborted && send({ type: 'failed', failure: failureOf(error) }),
      );
    return () => job.abort();
  }, [engine, send, inspecting?.source, inspecting?.tag, inspecting?.reading]);
}

/** Makes the plan of the current choices, then looks up which of its names are taken at the destination. */
export function usePlan(engine: Engine, state: State, send: Send): void {
  const planning = state.stage === 'plan' ? state : undefined;
  const options =
    planning && blockingProblems(planning.checkpoint).length === 0 ? planOptions(planning.choices) : undefined;
  useLayoutEffect(() => {
    if (!options || planning?.planning.kind !== 'working') return;
    return latest(
      () => engine.plan(options),
      (plan) => send({ type: 'planned', plan }),
      (error) => send({ type: 'refused', failure: failureOf(error) }),
    );
  }, [engine, send, planning?.checkpoint, planning?.choices]);

  const output = planning?.destination?.ref;
  const made = planning?.planning.kind === 'made' ? planning.planning.plan : undefined;
  const known = planning?.collisions !== undefined;
  useLayoutEffect(() => {
    if (!options || !made || !output || known) return;
    return latest(
      () => engine.collisions(options, output),
      (collisions) => send({ type: 'collisions', collisions }),
      (error) => send({ type: 'failed', failure: failureOf(error) }),
    );
  }, [engine, send, made, output, known]);
}

/** Asks the browser how much of the output downloads may take, where that is where the files go. */
export function useSpace(engine: Engine, state: State, send: Send): void {
  const open = state.stage === 'plan' && state.destination?.ref.kind === 'download' && state.space === undefined;
  const wanted = open && state.planning.kind === 'made' ? state.planning.plan.totals.outputBytes : undefined;
  useLayoutEffect(() => {
    if (wanted === undefined) return;
    return latest(
      () => engine.downloadSpace(wanted),
      (space) => send({ type: 'space', space: space ?? null }),
      (error) => send({ type: 'failed', failure: failureOf(error) }),
    );
  }, [engine, send, wanted]);
}

/** Looks up what the choice of backend comes to, for each kind of plan: that decides what is measured. */
export function useConverter(engine: Engine, state: State, send: Send): void {
  const choices = state.stage === 'plan' ? state.choices : undefined;
  const choice = choices?.backend;
  useLayoutEffect(() => {
    if (!choice) return;
    return latest(
      () => engine.converter(choice),
      (converter) => send({ type: 'converter', choice, converter: converter ?? null }),
      (error) => {
        // A device that cannot be had is as good as none.
        if (isUnshardError(error, 'gpu')) send({ type: 'converter', choice, converter: null });
        else send({ type: 'failed', failure: failureOf(error) });
      },
    );
  }, [engine, send, choice, choices?.dtype, choices?.output]);
}

/** Runs the conversion of the running stage, and cancels it when the user asks to. */
export function useRun(engine: Engine, state: State, send: Send): void {
  const running = state.stage === 'running' ? state : undefined;
  const job = useRef<AbortController>(undefined);
  useLayoutEffect(() => {
    const options = running && planOptions(running.from.choices);
    if (!running || !options) return;
    const { destination, from } = running;
    const { overwrite, choices } = from;
    const { backend, verify, sha256 } = choices;
    job.current = new AbortController();
    engine
      .run(
        { options, output: destination.ref, backend, overwrite, verify, sha256 },
        {
          signal: job.current.signal,
          onProgress: (progress) => send({ type: 'run-progress', progress, now: performance.now() }),
          onDownload: (file) => {
            saveFile(file);
            send({ type: 'downloaded', file });
          },
        },
      )
      .then(
        (outcome) => send({ type: 'finished', outcome }),
        (error) => send(isAbort(error) ? { type: 'cancelled' } : { type: 'failed', failure: failureOf(error) }),
      );
  }, [engine, send, running?.from]);

  const cancelling = running?.cancelling ?? false;
  useLayoutEffect(() => {
    if (cancelling) job.current?.abort();
  }, [cancelling]);
}

/** Does the work and hands on what came of it, unless the effect was left before. */
function latest<T>(work: () => Promise<T>, done: (value: T) => void, failed: (error: unknown) => void): () => void {
  let left = false;
  work().then(
    (value) => !left && done(value),
    (error) => !left && failed(error),
  );
  return () => {
    left = true;
  };
}
