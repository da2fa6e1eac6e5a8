import { expose } from 'comlink';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { isAbort, UnshardError } from '../../../src/base/errors.js';
import { resolveOptions } from '../../../src/plan/options.js';
import { CANCEL_GRACE_MS, type Engine, type EngineWorker, openEngine } from '../../../src/worker/client.js';
import type {
  Converter,
  ConvertProgress,
  EngineApi,
  InputRef,
  Outcome,
  RunRequest,
} from '../../../src/worker/protocol.js';
import { checkpointView as checkpoint } from '../../helpers/checkpoint-view.js';

const input: InputRef = { kind: 'sample', url: 'https://example.org/' };
const choice = { chosen: 'cpu', reason: 'a test', rates: [] } as const;
const cpu: Converter = { name: 'cpu', description: 'a test', choice };

/** A worker on a message channel. It logs its calls; what they do can be replaced. */
class FakeWorker implements EngineWorker {
  readonly calls: string[] = [];
  terminated = false;
  readonly #channel = new MessageChannel();
  readonly #failures: ((event: ErrorEvent) => void)[] = [];
  readonly postMessage: Worker['postMessage'];
  readonly removeEventListener: Worker['removeEventListener'];

  constructor(behaviour: Partial<EngineApi> = {}) {
    const { port1, port2 } = this.#channel;
    this.postMessage = port2.postMessage.bind(port2);
    this.removeEventListener = port2.removeEventListener.bind(port2);
    const log = async <T>(call: string, value: T): Promise<T> => {
      this.calls.push(call);
      return value;
    };
    const api: EngineApi = {
      inspect: (_input, { tag }) => log(`inspect ${tag}`, checkpoint),
      plan: () => log('plan', { ...PLAN }),
      collisions: () => log('collisions', { existing: [], sources: [] }),
      converter: () => log('converter', cpu),
      run: () => log('run', expect.fail('the run has no fake')),
      downloadSpace: (wanted) => log(`downloadSpace ${wanted}`, wanted),
      letGoDownloads: (paths) => log(`letGoDownloads ${paths}`, undefined),
      cancel: () => log('cancel', undefined),
      ...behaviour,
    };
    expose(api, port1);
    port2.start();
  }

  addEventListener(type: string, listener: EventListenerOrEventListenerObject): void {
    if (type === 'error') this.#failures.push(listener as (event: ErrorEvent) => void);
    else this.#channel.port2.addEventListener(type, listener);
  }

  terminate(): void {
    this.terminated = true;
    this.#channel.port2.close();
  }

  crash(message: string): void {
    const event = Object.assign(new Event('error', { cancelable: true }), { message });
    for (const listener of this.#failures) listener(event as ErrorEvent);
  }
}

const PLAN = {
  options: resolveOptions({}),
  aliases: {},
  skipped: [],
  warnings: [],
  totals: { tensors: 0, elements: 0, outputBytes: 0, inputBytes: 0 },
  tensors: [],
  files: [],
} as const;

const REQUEST: RunRequest = {
  options: {},
  output: { kind: 'download' },
  backend: 'cpu',
  overwrite: false,
  verify: true,
  sha256: false,
};

const PROGRESS: ConvertProgress = {
  written: 7,
  total: 7,
  file: 'b',
  filesDone: 2,
  files: 2,
  phase: 'write',
  closing: [],
};

const REPORT: Outcome['report'] = {
  version: 1,
  options: PLAN.options,
  backend: { name: 'cpu', description: 'a test', threads: 1, jobsOnCpu: 0 },
  files: [],
  tensors: [],
  aliases: {},
  skipped: [],
  warnings: [],
  checks: [],
  bytesRead: 0,
  bytesWritten: 0,
  seconds: 1,
};

const spawned: FakeWorker[] = [];

afterEach(() => {
  for (const worker of spawned.splice(0)) worker.terminate();
});

/** An engine whose workers behave as given, one after another. */
function engineOf(...behaviours: Partial<EngineApi>[]): Engine {
  return openEngine(() => {
    const worker = new FakeWorker(behaviours[spawned.length]);
    spawned.push(worker);
    return worker;
  });
}

function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => expect.fail('nothing was thrown'),
    (error) => error,
  );
}

/** A job of the worker that ends with `cancel` alone. `waiting` resolves when it has begun. */
function untilCancelled() {
  let begin = (): void => {};
  let reject: (reason: unknown) => void = () => {};
  return {
    waiting: new Promise<void>((resolve) => (begin = resolve)),
    wait: () => {
      begin();
      return new Promise<never>((_, fail) => (reject = fail));
    },
    cancel: async () => reject(new DOMException('Cancelled.', 'AbortError')),
  };
}

describe('the engine client', () => {
  it('passes calls, results and progress through', async () => {
    const engine = engineOf({
      async inspect(_input, _choice, onProgress) {
        onProgress({ done: 1, total: 2, file: 'a' });
        return checkpoint;
      },
    });
    const files: string[] = [];
    expect(await engine.inspect(input, { onProgress: ({ file }) => files.push(file) })).toEqual(checkpoint);
    await expect.poll(() => files).toEqual(['a']);
    expect(await engine.plan({})).toEqual(PLAN);
    expect(await engine.converter('cpu')).toEqual(cpu);
  });

  it('rejects with the error of the worker', async () => {
    const detail = { kind: 'usage', code: 'c', message: 'm', advice: 'a', facts: {} } as const;
    const engine = engineOf({
      async plan() {
        throw new UnshardError(detail);
      },
    });
    expect(await failure(engine.plan({}))).toMatchObject({ detail });
  });

  it('calls nothing when the signal is aborted already', async () => {
    const engine = engineOf();
    expect(isAbort(await failure(engine.inspect(input, { signal: AbortSignal.abort() })))).toBe(true);
    expect(spawned[0]?.calls).toEqual([]);
  });
});

describe('a cancel', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
  afterEach(() => void vi.useRealTimers());

  it('asks the worker, and keeps it when it obeys', async () => {
    const job = untilCancelled();
    const engine = engineOf({ inspect: job.wait, cancel: job.cancel });
    const controller = new AbortController();
    const inspecting = failure(engine.inspect(input, { signal: controller.signal }));
    await job.waiting;
    controller.abort();
    expect(isAbort(await inspecting)).toBe(true);
    vi.advanceTimersByTime(10 * CANCEL_GRACE_MS);
    expect(spawned.map(({ terminated }) => terminated)).toEqual([false]);
  });

  it('ends a worker that does not obey, and inspects again with the next one', async () => {
    const job = untilCancelled();
    let ask = (): void => {};
    const asked = new Promise<void>((resolve) => (ask = resolve));
    const engine = engineOf({ run: job.wait, cancel: async () => ask() });
    await engine.inspect(input, { tag: 'a' });
    const controller = new AbortController();
    const running = failure(engine.run(REQUEST, { signal: controller.signal }));
    await job.waiting;
    controller.abort();
    await asked;
    vi.advanceTimersByTime(CANCEL_GRACE_MS - 1);
    expect(spawned.map(({ terminated }) => terminated)).toEqual([false]);
    vi.advanceTimersByTime(1);
    expect(isAbort(await running)).toBe(true);
    expect(spawned.map(({ terminated }) => terminated)).toEqual([true]);
    expect(await engine.plan({})).toEqual(PLAN);
    expect(spawned.map(({ calls }) => calls)).toEqual([['inspect a'], ['inspect a', 'plan']]);
  });
});

describe('downloads', () => {
  it('are handed to the page before the run ends, each at once', async () => {
    const seen: string[] = [];
    const engine = engineOf({
      run: async (_request, { onDownload, onProgress }) => {
        for (const path of ['a', 'b']) {
          await onDownload({ path, file: new File([path], path) });
          seen.push(`handed ${path}`);
        }
        await onProgress(PROGRESS);
        return { report: REPORT };
      },
    });
    const outcome = await engine.run(REQUEST, {
      onDownload: ({ path }) => void seen.push(`got ${path}`),
      onProgress: ({ written }) => seen.push(`written ${written}`),
    });
    expect(outcome).toEqual({ report: REPORT });
    expect(seen).toEqual(['got a', 'handed a', 'got b', 'handed b', 'written 7']);
  });

  it('have their space asked for, and their copies let go', async () => {
    const engine = engineOf();
    expect(await engine.downloadSpace(7)).toBe(7);
    await engine.letGoDownloads(['a', 'b']);
    expect(spawned.map(({ calls }) => calls)).toEqual([['downloadSpace 7', 'letGoDownloads a,b']]);
  });
});

describe('a worker that crashes', () => {
  it('rejects the calls under way, and the next call has a fresh one', async () => {
    const job = untilCancelled();
    const engine = engineOf({ plan: job.wait });
    await engine.inspect(input);
    const planning = failure(engine.plan({}));
    await job.waiting;
    spawned[0]?.crash('out of memory');
    expect(await planning).toMatchObject({ message: 'out of memory' });
    expect(await engine.plan({})).toEqual(PLAN);
    expect(spawned).toHaveLength(2);
  });

  it('is not started again before it is needed', () => {
    engineOf();
    spawned[0]?.crash('no script');
    expect(spawned).toHaveLength(1);
  });
});
