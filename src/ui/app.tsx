/**
 * The page: one state, one view per stage, and the folders that are dropped on it.
 *
 * @module
 */

import type { JSX } from 'preact';
import { useEffect, useReducer, useState } from 'preact/hooks';
import type { Engine } from '../worker/client.js';
import { useConverter, useInspect, usePlan, useRun } from './effects.js';
import { droppedSource, type Picked } from './folders.js';
import { openRecentFolders } from './recent.js';
import { type Event, lacksShards, reduce, type Send, type Source, START, type State } from './state.js';
import { Failed } from './views/failed.js';
import { Inspecting } from './views/inspecting.js';
import { Pick } from './views/pick.js';
import { Plan } from './views/plan.js';
import { Report } from './views/report.js';
import { Running } from './views/running.js';
import { Shell } from './views/shell.js';

const recentFolders = openRecentFolders();

/** The whole page. */
export function App({ engine }: { readonly engine: Engine }): JSX.Element {
  const [state, send] = useReducer<State, Event>(reduce, START);
  const [recent, setRecent] = useState<readonly FileSystemDirectoryHandle[]>([]);
  useEffect(() => {
    void recentFolders.list().then(setRecent);
  }, []);
  useInspect(engine, state, send);
  useConverter(engine, state, send);
  usePlan(engine, state, send);
  useRun(engine, state, send);

  async function open(picking: Promise<Picked<Source>>): Promise<void> {
    const picked = await picking;
    if (picked === undefined) return;
    if (typeof picked === 'string') return send({ type: 'notice', message: picked });
    send({ type: 'opened', source: picked });
    if (picked.ref.kind === 'directory') setRecent(await recentFolders.add(picked.ref.handle));
  }

  async function forget(): Promise<void> {
    await recentFolders.clear();
    setRecent([]);
  }

  async function add(picking: Promise<Picked<Source>>): Promise<void> {
    const picked = await picking;
    if (picked === undefined) return;
    send(typeof picked === 'string' ? { type: 'notice', message: picked } : { type: 'added', source: picked });
  }

  const take = state.stage === 'plan' ? add : open;
  const dragging = useDrop(state, (data) => void take(droppedSource(data)));
  return (
    <Shell stage={state.stage} dragging={dragging}>
      {view(
        state,
        send,
        recent,
        (picking) => void open(picking),
        (picking) => void add(picking),
        () => void forget(),
      )}
    </Shell>
  );
}

function view(
  state: State,
  send: Send,
  recent: readonly FileSystemDirectoryHandle[],
  open: (picking: Promise<Picked<Source>>) => void,
  add: (picking: Promise<Picked<Source>>) => void,
  forget: () => void,
): JSX.Element {
  switch (state.stage) {
    case 'pick':
      return <Pick notice={state.notice} recent={recent} open={open} forget={forget} />;
    case 'inspecting':
      return <Inspecting state={state} send={send} />;
    case 'plan':
      return <Plan state={state} send={send} add={add} />;
    case 'running':
      return <Running state={state} send={send} />;
    case 'report':
      return <Report state={state} send={send} />;
    case 'failed':
      return <Failed state={state} send={send} />;
  }
}

/**
 * Takes a checkpoint that is dropped anywhere on the page. In the plan stage that is a further folder where shards are
 * missing, and elsewhere only the zone of destination takes drops; while a job runs, none does. A drop must never make the browser leave the page.
 *
 * @returns true while something is dragged over the page that it would take
 */
function useDrop(state: State, onDrop: (data: DataTransfer) => void): boolean {
  const [dragging, setDragging] = useState(false);
  const lacks = state.stage === 'plan' && lacksShards(state.checkpoint);
  const takes = lacks || state.stage === 'pick' || state.stage === 'report' || state.stage === 'failed';
  useEffect(() => {
    const over = (event: DragEvent): void => {
      event.preventDefault();
      setDragging(takes);
    };
    const leave = (event: DragEvent): void => {
      if (event.relatedTarget === null) setDragging(false);
    };
    const drop = (event: DragEvent): void => {
      event.preventDefault();
      setDragging(false);
      if (takes && event.dataTransfer) onDrop(event.dataTransfer);
    };
    addEventListener('dragover', over);
    addEventListener('dragleave', leave);
    addEventListener('drop', drop);
    return () => {
      removeEventListener('dragover', over);
      removeEventListener('dragleave', leave);
      removeEventListener('drop', drop);
    };
  });
  return dragging;
}
