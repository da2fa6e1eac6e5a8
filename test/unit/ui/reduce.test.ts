import { describe, expect, it } from 'vitest';
import { resolveOptions } from '../../../src/plan/options.js';
import { DEFAULT_CHOICES } from '../../../src/ui/choices.js';
import type { Failure } from '../../../src/ui/failure.js';
import { obstacle } from '../../../src/ui/obstacle.js';
import { PLAIN_READING, type Reading } from '../../../src/ui/reading.js';
import { reduce } from '../../../src/ui/reduce.js';
import { savedText } from '../../../src/ui/save.js';
import {
  type Event,
  lacksShards,
  offersPartial,
  type PlanState,
  type Source,
  START,
  type State,
} from '../../../src/ui/state.js';
import type { CheckpointView, ConvertProgress, Outcome, PlanView } from '../../../src/worker/protocol.js';
import { checkpointView as checkpoint } from '../../helpers/checkpoint-view.js';

const source: Source = { name: 'run', ref: { kind: 'sample', url: 'https://example.org/sample/' } };
const other: Source = { name: 'other', ref: { kind: 'sample', url: 'https://example.org/other/' } };
const destination = { name: 'Downloads', ref: { kind: 'download' } } as const;
const failure: Failure = {
  message: 'The file is short.',
  advice: 'Copy it again.',
  code: 'short-file',
  kind: 'bad-file',
  lostFile: 'global_step3/zero_pp_rank_1_mp_rank_00_optim_states.pt',
};
/** The reading that does without the file of `failure`. */
const withoutIt: Reading = { ...PLAIN_READING, partial: true, lost: [failure.lostFile ?? ''] };
const CONVERTER = {
  name: 'cpu',
  description: 'a test',
  choice: { chosen: 'cpu', reason: 'a test', rates: [] },
} as const;
const nothingTaken = { existing: [], sources: [] };

const plan: PlanView = {
  options: resolveOptions({}),
  aliases: {},
  skipped: [],
  warnings: [],
  totals: { tensors: 1, elements: 10, outputBytes: 40, inputBytes: 40 },
  tensors: [],
  files: [{ path: 'model.safetensors', byteLength: 40 }],
};

const cost = { bytes: 40, seconds: 1 };
const outcome: Outcome = {
  costs: { read: cost, write: cost, close: cost },
  report: {
    version: 1,
    options: plan.options,
    backend: { name: 'cpu', description: 'a test', threads: 1, jobsOnCpu: 0 },
    files: plan.files,
    tensors: [],
    aliases: {},
    skipped: [],
    warnings: [],
    checks: [],
    bytesRead: 40,
    bytesWritten: 40,
    seconds: 1,
  },
};

const progress = {
  written: 10,
  total: 40,
  file: 'model.safetensors',
  filesDone: 0,
  files: 1,
  phase: 'write',
  closing: [],
} as const;

/** The state after the events, from the start. */
function reach(...events: Event[]): State {
  return events.reduce(reduce, START);
}

const INSPECTED: Event[] = [
  { type: 'opened', source },
  { type: 'inspected', checkpoint },
];
const READY: Event[] = [
  ...INSPECTED,
  { type: 'converter', choice: 'auto', converter: CONVERTER },
  { type: 'planned', plan },
  { type: 'destination', destination },
  { type: 'space', space: 1000 },
  { type: 'collisions', collisions: nothingTaken },
];
const RUNNING: Event[] = [...READY, { type: 'started', now: 0 }];

function planState(...events: Event[]): PlanState {
  const state = reach(...events);
  if (state.stage !== 'plan') throw new Error(`The page is in the stage ${state.stage}.`);
  return state;
}

describe('picking and inspecting', () => {
  it('goes from a folder over its inspection to the plan with the default choices', () => {
    expect(reach({ type: 'opened', source })).toEqual({
      stage: 'inspecting',
      source,
      reading: PLAIN_READING,
      from: { stage: 'pick' },
    });
    expect(reach(...INSPECTED)).toMatchObject({
      stage: 'plan',
      source,
      checkpoint,
      choices: DEFAULT_CHOICES,
      planning: { kind: 'working' },
    });
  });

  it('keeps the newest progress', () => {
    const first = { done: 1, total: 4, file: 'a' };
    const second = { done: 2, total: 4, file: 'b' };
    const state = reach(
      { type: 'opened', source },
      { type: 'inspect-progress', progress: first },
      { type: 'inspect-progress', progress: second },
    );
    expect(state).toMatchObject({ stage: 'inspecting', progress: second });
  });

  it('goes back to the start when it is cancelled', () => {
    expect(reach({ type: 'opened', source }, { type: 'cancelled' })).toEqual(START);
  });

  it('shows a failure and goes back to the start from it', () => {
    const failed: Event[] = [
      { type: 'opened', source },
      { type: 'failed', failure },
    ];
    const retry = { source, reading: withoutIt };
    expect(reach(...failed)).toEqual({ stage: 'failed', failure, from: { stage: 'pick' }, retry });
    expect(reach(...failed, { type: 'back' })).toEqual(START);
  });

  it('opens another folder in every stage but while it writes', () => {
    const opened = { stage: 'inspecting', source: other };
    expect(reach(...INSPECTED, { type: 'opened', source: other })).toMatchObject(opened);
    expect(reach(...RUNNING, { type: 'finished', outcome }, { type: 'opened', source: other })).toMatchObject(opened);
    expect(reach(...RUNNING, { type: 'opened', source: other })).toMatchObject({ stage: 'running' });
  });

  it('drops the notice when a folder was opened', () => {
    const notice: Event = { type: 'notice', message: 'That is a file.' };
    expect(reach(notice)).toEqual({ stage: 'pick', notice: 'That is a file.' });
    expect(reach(notice, { type: 'opened', source }, { type: 'cancelled' })).toEqual(START);
  });
});

describe('another tag', () => {
  const choices = { dtype: 'bf16' } as const;
  const chosen: Event[] = [...READY, { type: 'chose', choices }, { type: 'tag', tag: 'global_step1' }];

  it('inspects the tag and keeps choices and destination', () => {
    expect(reach(...chosen)).toMatchObject({ stage: 'inspecting', source, tag: 'global_step1' });
    const state = planState(...chosen, { type: 'inspected', checkpoint });
    expect(state).toMatchObject({ choices: { dtype: 'bf16' }, destination, planning: { kind: 'working' } });
    expect(state.collisions).toBeUndefined();
  });

  it('leads back to the tag before it when it is cancelled or fails', () => {
    expect(reach(...chosen, { type: 'cancelled' })).toMatchObject({ stage: 'plan', choices: { dtype: 'bf16' } });
    expect(reach(...chosen, { type: 'failed', failure }, { type: 'back' })).toMatchObject({
      stage: 'plan',
      choices: { dtype: 'bf16' },
    });
  });
});

describe('partial recovery', () => {
  const missing = { kind: 'missing-shard', code: 'missing-optim-rank', message: '', advice: '', facts: {} } as const;
  const lacking: CheckpointView = { ...checkpoint, problems: [missing] };
  const reading = { ...PLAIN_READING, partial: true };
  const partial: Event = { type: 'read', reading };

  it('is offered for problems of stage 1 and 2, for shards that are missing, and while it is on', () => {
    const differing = { ...missing, kind: 'inconsistent', code: 'step-differs' } as const;
    const odd: CheckpointView = { ...checkpoint, layout: 'deepspeed-zero3', problems: [differing] };
    expect(offersPartial({ reading: PLAIN_READING, checkpoint: lacking })).toBe(true);
    expect(offersPartial({ reading: PLAIN_READING, checkpoint })).toBe(false);
    expect(offersPartial({ reading: PLAIN_READING, checkpoint: { ...lacking, layout: 'deepspeed-zero3' } })).toBe(true);
    expect(offersPartial({ reading: PLAIN_READING, checkpoint: odd })).toBe(false);
    expect(offersPartial({ reading: PLAIN_READING, checkpoint: { ...odd, layout: 'deepspeed-zero1' } })).toBe(true);
    expect(offersPartial({ reading, checkpoint })).toBe(true);
  });

  it('reads the same tag again, and stays on until another reading', () => {
    const asked: Event[] = [{ type: 'opened', source }, { type: 'inspected', checkpoint: lacking }, partial];
    expect(reach(...asked)).toMatchObject({ stage: 'inspecting', source, tag: 'global_step3', reading });
    const recovered = planState(...asked, { type: 'inspected', checkpoint });
    expect(recovered).toMatchObject({ stage: 'plan', reading });
    expect(reduce(recovered, { type: 'tag', tag: 'other' })).toMatchObject({ reading: PLAIN_READING });
    expect(reduce(recovered, { type: 'added', source: other })).toMatchObject({ reading: PLAIN_READING });
  });

  it('can be tried after a damaged file, once, and after no other failure', () => {
    const failed = reach({ type: 'opened', source }, { type: 'failed', failure });
    const retried = reduce(failed, { type: 'read', reading: withoutIt });
    expect(retried).toMatchObject({ stage: 'inspecting', source, reading: withoutIt });
    expect(reduce(retried, { type: 'failed', failure })).not.toHaveProperty('retry');
    const { lostFile: _, ...gone } = failure;
    expect(reach({ type: 'opened', source }, { type: 'failed', failure: gone })).not.toHaveProperty('retry');
  });

  it('can be tried where a run meets a damaged file, and then leaves that file out', () => {
    const failed = reach(...READY, { type: 'started', now: 0 }, { type: 'failed', failure });
    expect(failed).toMatchObject({ stage: 'failed', retry: { source, tag: 'global_step3', reading: withoutIt } });
    const again = reduce(failed, { type: 'read', reading: withoutIt });
    expect(again).toMatchObject({ stage: 'inspecting', tag: 'global_step3', reading: withoutIt });
    expect(reduce(again, { type: 'inspected', checkpoint })).toMatchObject({ stage: 'plan', destination });
  });
});

describe('tensor-parallel ranks', () => {
  const rules: Reading = { partial: false, lost: [], tpRules: [{ pattern: '*', merge: 0 }] };
  const alone: Reading = { ...rules, tpRank: 1 };

  it('are read again as asked, and choices and destination stay', () => {
    const asked = reach(...READY, { type: 'chose', choices: { dtype: 'bf16' } }, { type: 'read', reading: alone });
    expect(asked).toMatchObject({ stage: 'inspecting', source, tag: 'global_step3', reading: alone });
    expect(reduce(asked, { type: 'inspected', checkpoint })).toMatchObject({
      stage: 'plan',
      reading: alone,
      choices: { dtype: 'bf16' },
      destination,
    });
  });

  it('keep their rules for another tag, which may have other ranks', () => {
    const read = planState(...READY, { type: 'read', reading: alone }, { type: 'inspected', checkpoint });
    const other = reduce(read, { type: 'tag', tag: 'other' });
    expect(other).toMatchObject({ stage: 'inspecting', tag: 'other', reading: rules });
    expect(other).not.toHaveProperty('reading.tpRank');
  });
});

describe('another folder', () => {
  const third: Source = { name: 'third', ref: { kind: 'files', name: 'third', files: [] } };
  const missing = { kind: 'missing-shard', code: 'missing-optim-rank', message: '', advice: '', facts: {} } as const;

  it('is read together with those before it, at the tag that was read', () => {
    const first = reach(...READY, { type: 'added', source: other });
    const name = 'run';
    const several = { name, ref: { kind: 'several', parts: [source.ref, other.ref] } };
    expect(first).toMatchObject({ stage: 'inspecting', source: several, tag: 'global_step3' });
    const state = reach(
      ...READY,
      { type: 'added', source: other },
      { type: 'inspected', checkpoint },
      { type: 'added', source: third },
    );
    expect(state).toMatchObject({ source: { ref: { parts: [source.ref, other.ref, third.ref] } } });
  });

  it('keeps choices and destination, and leads back to the plan when it fails', () => {
    const added: Event[] = [...READY, { type: 'chose', choices: { dtype: 'bf16' } }, { type: 'added', source: other }];
    expect(planState(...added, { type: 'inspected', checkpoint })).toMatchObject({
      choices: { dtype: 'bf16' },
      destination,
    });
    expect(reach(...added, { type: 'failed', failure }, { type: 'back' })).toMatchObject({ stage: 'plan', source });
  });

  it('is asked for where shards are missing alone', () => {
    expect(lacksShards({ problems: [missing] })).toBe(true);
    expect(lacksShards({ problems: [{ ...missing, kind: 'inconsistent' }] })).toBe(false);
    expect(lacksShards({ problems: [] })).toBe(false);
  });
});

describe('the choices', () => {
  it('make the plan out of date, keep it in sight, and ask about existing files anew', () => {
    const state = planState(
      ...INSPECTED,
      { type: 'planned', plan },
      { type: 'destination', destination },
      { type: 'collisions', collisions: { existing: ['model.safetensors'], sources: [] } },
      { type: 'overwrite', overwrite: true },
      { type: 'chose', choices: { format: 'bin' } },
    );
    expect(state).toMatchObject({ planning: { kind: 'working', last: plan }, overwrite: false, destination });
    expect(state.collisions).toBeUndefined();
  });

  it('survive a failure at the destination, which is let go', () => {
    const state = reach(
      ...READY,
      { type: 'chose', choices: { dtype: 'fp16' } },
      { type: 'failed', failure },
      { type: 'back' },
    );
    expect(state).toMatchObject({ stage: 'plan', choices: { dtype: 'fp16' } });
    expect(state).not.toHaveProperty('destination');
  });

  it('are incomplete while the size that was typed is none', () => {
    const custom: Event = { type: 'chose', choices: { shardSize: 'custom', customSize: 'four' } };
    expect(planState(...READY, custom)).toMatchObject({ planning: { kind: 'incomplete', last: plan } });
    const typed: Event = { type: 'chose', choices: { customSize: '4 GB' } };
    expect(planState(...READY, custom, typed)).toMatchObject({ planning: { kind: 'working' } });
  });

  it('survive a failed run, a cancelled run, and a second conversion', () => {
    const run: Event[] = [
      ...READY,
      { type: 'chose', choices: { dtype: 'fp16' } },
      { type: 'planned', plan },
      { type: 'destination', destination },
      { type: 'space', space: null },
      { type: 'collisions', collisions: nothingTaken },
      { type: 'started', now: 0 },
    ];
    const kept = { stage: 'plan', choices: { dtype: 'fp16' } };
    expect(reach(...run, { type: 'failed', failure }, { type: 'back' })).toMatchObject({ ...kept, destination });
    expect(reach(...run, { type: 'cancelling' }, { type: 'cancelled' })).toMatchObject({ ...kept, destination });
    const again = planState(...run, { type: 'finished', outcome }, { type: 'back' });
    expect(again).toMatchObject(kept);
    expect(again.destination).toBeUndefined();
  });
});

describe('the run', () => {
  it('starts from a plan that nothing stands against', () => {
    expect(reach(...RUNNING)).toMatchObject({
      stage: 'running',
      plan,
      destination,
      cancelling: false,
      samples: [{ at: 0, bytes: 0 }],
    });
  });

  it('does not start before everything is known', () => {
    expect(reach(...READY.slice(0, -1), { type: 'started', now: 0 })).toMatchObject({ stage: 'plan' });
  });

  it('keeps progress with its times', () => {
    expect(reach(...RUNNING, { type: 'run-progress', progress, now: 50 })).toMatchObject({
      progress,
      samples: [
        { at: 0, bytes: 0 },
        { at: 50, bytes: 10 },
      ],
    });
  });

  it('knows since when nothing but reading back goes on', () => {
    const reading = { ...progress, written: 40, phase: 'check' } as const;
    const closing = [{ path: 'model.safetensors', byteLength: 40, since: 0 }];
    const events: Event[] = [
      ...RUNNING,
      { type: 'run-progress', progress: { ...reading, written: 30 }, now: 10 },
      { type: 'run-progress', progress: { ...reading, closing }, now: 20 },
    ];
    expect(reach(...events)).not.toHaveProperty('readingSince');
    const since: Event[] = [
      { type: 'run-progress', progress: reading, now: 30 },
      { type: 'run-progress', progress: reading, now: 40 },
    ];
    expect(reach(...events, ...since)).toMatchObject({ readingSince: 30 });
  });

  it('stays until the engine has cleaned up after a cancel', () => {
    expect(reach(...RUNNING, { type: 'cancelling' })).toMatchObject({ stage: 'running', cancelling: true });
  });

  it('looks up the names at the destination again after it was cancelled or failed', () => {
    expect(planState(...RUNNING, { type: 'cancelled' }).collisions).toBeUndefined();
    const state = reach(...RUNNING, { type: 'failed', failure });
    expect(state.stage === 'failed' && state.from.stage === 'plan' && state.from.collisions).toBeUndefined();
  });

  it('ends in the report', () => {
    expect(reach(...RUNNING, { type: 'finished', outcome })).toMatchObject({ stage: 'report', outcome, destination });
  });

  it('is not left for the start', () => {
    expect(reach(...RUNNING, { type: 'restart' })).toMatchObject({ stage: 'running' });
    expect(reach(...RUNNING, { type: 'finished', outcome }, { type: 'restart' })).toEqual(START);
  });
});

describe('downloads', () => {
  const file = (path: string) => ({ path, file: new File([path], path) });
  const [first, second] = [file('model-1'), file('model-2')];
  const waitFor = (...kept: string[]): ConvertProgress => ({
    ...progress,
    wait: { path: 'model-4', needed: 40, free: 1, kept },
  });
  const given: Event[] = [
    ...RUNNING,
    { type: 'downloaded', file: first },
    { type: 'downloaded', file: second },
    { type: 'let-go', paths: ['model-1'] },
  ];

  it('are kept until their copies are let go, in the run and after it', () => {
    expect(reach(...given)).toMatchObject({ downloads: [second], saved: ['model-1', 'model-2'] });
    const report = reach(...given, { type: 'finished', outcome });
    expect(report).toMatchObject({ stage: 'report', downloads: [second] });
    expect(reduce(report, { type: 'let-go', paths: ['model-2'] })).toMatchObject({ downloads: [] });
  });

  it('end the wait for their space at once, and no message from before the answer brings it back', () => {
    const waiting = (...kept: string[]): Event => ({ type: 'run-progress', progress: waitFor(...kept), now: 10 });
    const third: Event = { type: 'downloaded', file: file('model-3') };
    const all: Event = { type: 'let-go', paths: ['model-1', 'model-2'] };
    const asked = [...RUNNING, ...given.slice(RUNNING.length, -1), waiting('model-1', 'model-2')];
    expect(reach(...asked)).toHaveProperty('progress.wait.kept', ['model-1', 'model-2']);
    expect(reach(...asked, third)).toHaveProperty('progress.wait');
    for (const late of [[], [waiting('model-1', 'model-2')], [third, waiting('model-1', 'model-2', 'model-3')]]) {
      const answered = reach(...asked, all, ...late);
      expect(answered).toMatchObject({ progress });
      expect(answered).not.toHaveProperty('progress.wait');
    }
    expect(reach(...asked, all, third, waiting('model-3'))).toHaveProperty('progress.wait.kept', ['model-3']);
    expect(reach(...asked, all, waiting())).toHaveProperty('progress.wait.kept', []);
  });

  it('of a run that failed or was cancelled are named', () => {
    expect(reach(...given, { type: 'failed', failure })).toMatchObject({ saved: ['model-1', 'model-2'] });
    const state = planState(...given, { type: 'cancelled' });
    expect(state.notice).toBe(
      'The browser had saved model-1, model-2 by then. They are not the whole model: remove them from its downloads.',
    );
    expect(reach(...RUNNING, { type: 'failed', failure })).not.toHaveProperty('saved');
    expect(reach(...RUNNING, { type: 'cancelled' })).not.toHaveProperty('notice');
    expect(reach(...RUNNING, { type: 'cancelled' })).toHaveProperty('cancelled', true);
    expect(reach(...RUNNING, { type: 'cancelled' }, { type: 'chose', choices: {} })).not.toHaveProperty('cancelled');
    expect(savedText(['a', 'b', 'c', 'd', 'e', 'f', 'g'])).toContain('a, b, c, d, e and 2 more by then');
  });

  it('have their space looked up again after a run and for another destination', () => {
    expect(planState(...READY)).toHaveProperty('space', 1000);
    expect(planState(...READY, { type: 'destination', destination })).not.toHaveProperty('space');
    expect(planState(...RUNNING, { type: 'cancelled' })).not.toHaveProperty('space');
    expect(planState(...RUNNING, { type: 'finished', outcome }, { type: 'back' })).not.toHaveProperty('space');
  });
});

describe('events of a job that was left', () => {
  const late: Event[] = [
    { type: 'inspected', checkpoint },
    { type: 'inspect-progress', progress: { done: 1, total: 2, file: 'a' } },
    { type: 'planned', plan },
    { type: 'collisions', collisions: nothingTaken },
    { type: 'run-progress', progress, now: 1 },
    { type: 'downloaded', file: { path: 'a', file: new File([], 'a') } },
    { type: 'let-go', paths: [] },
    { type: 'space', space: 1 },
    { type: 'finished', outcome },
    { type: 'cancelled' },
    { type: 'failed', failure },
  ];

  it.each(late)('$type changes nothing at the start', (event) => {
    expect(reach(event)).toBe(START);
  });
});

describe('the obstacle', () => {
  const problem = { kind: 'missing-shard', code: 'missing-rank', message: 'm', advice: 'a', facts: {} } as const;

  it('is none where the browser does not say what downloads may take', () => {
    expect(obstacle(planState(...READY, { type: 'space', space: null }))).toBeUndefined();
    expect(obstacle(planState(...READY, { type: 'space', space: 40 }))).toBeUndefined();
  });

  it('is none when plan, destination and names are known', () => {
    expect(obstacle(planState(...READY))).toBeUndefined();
  });

  it.each<[string, PlanState]>([
    ['problems', { ...planState(...READY), checkpoint: { ...checkpoint, problems: [problem] } }],
    ['options', planState(...READY, { type: 'refused', failure })],
    ['size', planState(...READY, { type: 'chose', choices: { shardSize: 'custom', customSize: '' } })],
    ['where to write', planState(...INSPECTED, { type: 'planned', plan })],
    ['Looking', planState(...READY, { type: 'chose', choices: { dtype: 'bf16' } })],
    ['Looking', planState(...READY, { type: 'destination', destination })],
    [
      'storage',
      planState(...READY, { type: 'destination', destination }, { type: 'collisions', collisions: nothingTaken }),
    ],
    ['does not fit', planState(...READY, { type: 'space', space: 39 })],
    [
      'Looking for a GPU',
      planState(
        ...READY,
        { type: 'chose', choices: { backend: 'gpu' } },
        { type: 'planned', plan },
        { type: 'space', space: 40 },
        { type: 'collisions', collisions: nothingTaken },
      ),
    ],
    ['offers no GPU', planState(...READY, { type: 'converter', choice: 'auto', converter: null })],
    [
      'never replaced',
      planState(...READY, { type: 'collisions', collisions: { existing: ['config.json'], sources: ['config.json'] } }),
    ],
    [
      'replace the existing',
      planState(...READY, { type: 'collisions', collisions: { existing: ['model.safetensors'], sources: [] } }),
    ],
  ])('speaks of %s', (word, state) => {
    expect(obstacle(state)).toContain(word);
    expect(reduce(state, { type: 'started', now: 0 })).toBe(state);
  });

  it('is gone when the user agrees to replace files', () => {
    const collisions = { existing: ['model.safetensors'], sources: [] };
    const state = planState(...READY, { type: 'collisions', collisions }, { type: 'overwrite', overwrite: true });
    expect(obstacle(state)).toBeUndefined();
    expect(reduce(state, { type: 'started', now: 0 }).stage).toBe('running');
  });
});
