/**
 * The page: one state, one view per stage, and the folders that are dropped on it.
 *
 * @module
 */

import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useReducer, useState } from 'preact/hooks';
import type { Engine } from '../worker/client.js';
import { useConverter, useInspect, usePlan, useRun, useSpace } from './effects.js';
import { droppedSource, type Picked } from './folders.js';
import { usePaces } from './measured.js';
import type { Paces } from './paces.js';
import { openRecentFolders } from './recent.js';
import { reduce } from './reduce.js';
import { type Event, lacksShards, type Send, type Source, START, type State } from './state.js';
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
  usePlan(engine, state, send);
  useConverter(engine, state, send);
  useSpace(engine, state, send);
  useRun(engine, state, send);
  const paces = usePaces(state);

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

  function letGo(paths: readonly string[]): void {
    send({ type: 'let-go', paths });
    void engine.letGoDownloads(paths);
  }

  const take = state.stage === 'plan' ? add : open;
  const dragging = useDrop(state, (data) => void take(droppedSource(data)));
  return (
    <Shell stage={state.stage} dragging={dragging}>
      {view({
        state,
        send,
        paces,
        recent,
        open: (picking) => void open(picking),
        add: (picking) => void add(picking),
        forget: () => void forget(),
        letGo,
      })}
    </Shell>
  );
}

/** What the views show, and what they can set going. */
interface Views {
  readonly state: State;
  readonly send: Send;
  readonly paces: Paces;
  readonly recent: readonly FileSystemDirectoryHandle[];
  readonly open: (picking: Promise<Picked<Source>>) => void;
  readonly add: (picking: Promise<Picked<Source>>) => void;
  readonly forget: () => void;
  /** Removes copies of files that the browser has saved. */
  readonly letGo: (paths: readonly string[]) => void;
}

function view({ state, send, paces, recent, open, add, forget, letGo }: Views): JSX.Element {
  switch (state.stage) {
    case 'pick':
      return <Pick notice={state.notice} recent={recent} open={open} forget={forget} />;
    case 'inspecting':
      return <Inspecting state={state} send={send} />;
    case 'plan':
      return <Plan state={state} send={send} paces={paces} add={add} />;
    case 'running':
      return <Running state={state} send={send} paces={paces} letGo={letGo} />;
    case 'report':
      return <Report state={state} send={send} letGo={letGo} />;
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
  // Not after the next frame: what is dropped until then would be lost.
  useLayoutEffect(() => {
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
    // Where the page moves under the pointer, what is entered then has to take the drop at once.
    addEventListener('dragenter', over);
    addEventListener('dragover', over);
    addEventListener('dragleave', leave);
    addEventListener('drop', drop);
    return () => {
      removeEventListener('dragenter', over);
      removeEventListener('dragover', over);
      removeEventListener('dragleave', leave);
      removeEventListener('drop', drop);
    };
  });
  return dragging;
}
