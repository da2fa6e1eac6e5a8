import type { CheckpointView } from '../../src/worker/protocol.js';

/** A checkpoint without tensors that nothing is wrong with, as the page shows it. */
export const checkpointView: CheckpointView = {
  folder: 'run',
  layout: 'deepspeed-zero2',
  tag: { tag: 'global_step3', path: 'global_step3', latest: true },
  tags: [],
  tensors: [],
  aliases: {},
  skipped: [],
  warnings: [],
  problems: [],
  checks: [],
  adapters: [],
  facts: { ranks: 3, elements: 10, uninterpretedObjects: 0, dangerousGlobals: [] },
  sourceFiles: 4,
  sourceBytes: 1000,
};
