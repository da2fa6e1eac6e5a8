/**
 * `npm run browser -- CHECKPOINT OUT [options]`: converts a checkpoint with the built page in a headless Chromium, and
 * prints the result as one line of JSON.
 *
 * @module
 */

import { existsSync, mkdirSync, realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { takeDownloads } from '../bench/downloads.js';
import { readPss } from '../helpers/memory.js';
import { launchBrowser, type TestBrowser } from '../helpers/page.js';
import { servePage } from '../helpers/serve.js';
import { assertPageBuilt, convertInPage, openPage, type PageConversion, PageFailure } from './drive.js';

export { convertInPage, openPage, type PageConversion, PageFailure } from './drive.js';

const USAGE = `Usage: npm run browser -- CHECKPOINT OUT [options]

  --also FOLDER           another folder with shards of the checkpoint; may be repeated
  --partial               do without optimizer files that are missing or damaged
  --tp-rule P=HOW         join the tensor-parallel shards of the names P along dimension 0, 1 or 2, as replicated, or as
                          average; may be repeated
  --tp-rank RANK          take the shards of one tensor-parallel rank alone
  --tag TAG               tag to convert (default: the latest)
  --dtype DTYPE           fp32, fp16, bf16 or keep
  --dtype-for P=DTYPE     precision of tensors whose name matches the pattern P; may be repeated
  --format FORMAT         safetensors or bin
  --max-shard-size SIZE   largest file, such as 5GB
  --adapter-only          of a LoRA run, the adapter alone
  --merge-adapter         of a LoRA run, the model with the adapter merged in
  --adapter-name NAME     the adapter, where there are several
  --lora-alpha NUMBER     where adapter_config.json is missing, its lora_alpha, to merge the adapter by
  --lora-r NUMBER         beside it, the rank that every layer must have
  --lora-rslora           beside it, use_rslora
  --include PATTERN       only tensors whose name matches; may be repeated
  --exclude PATTERN       leave out tensors whose name matches; may be repeated
  --exclude-frozen        leave out frozen parameters
  --trainable-only        only parameters that were trained
  --strip-prefix PREFIX   take a prefix off the names
  --trim-vocab            trim embeddings to the vocabulary
  --duplicate-tied        write a copy for each tied name
  --overflow POLICY       error, inf or clamp
  --no-verify             compare no checksums, and do not read the output back
  --sha256                take the SHA-256 of every file
  --overwrite             replace existing files
  --download              let the browser download the files, and move them to OUT
  --backend BACKEND       auto, gpu or cpu; gpu starts a software adapter where there is no other
  --screenshots DIR       save a picture of each stage
  --help                  show this text`;

/** Time between two looks at the memory, in milliseconds. */
const MEMORY_MS = 100;

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      also: { type: 'string', multiple: true },
      partial: { type: 'boolean' },
      'tp-rule': { type: 'string', multiple: true },
      'tp-rank': { type: 'string' },
      tag: { type: 'string' },
      dtype: { type: 'string' },
      'dtype-for': { type: 'string', multiple: true },
      format: { type: 'string' },
      'max-shard-size': { type: 'string' },
      'adapter-only': { type: 'boolean' },
      'merge-adapter': { type: 'boolean' },
      'adapter-name': { type: 'string' },
      'lora-alpha': { type: 'string' },
      'lora-r': { type: 'string' },
      'lora-rslora': { type: 'boolean' },
      include: { type: 'string', multiple: true },
      exclude: { type: 'string', multiple: true },
      'exclude-frozen': { type: 'boolean' },
      'trainable-only': { type: 'boolean' },
      'strip-prefix': { type: 'string' },
      'trim-vocab': { type: 'boolean' },
      'no-verify': { type: 'boolean' },
      sha256: { type: 'boolean' },
      'duplicate-tied': { type: 'boolean' },
      overflow: { type: 'string' },
      overwrite: { type: 'boolean' },
      download: { type: 'boolean' },
      backend: { type: 'string' },
      screenshots: { type: 'string' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) {
    console.log(USAGE);
    return;
  }
  const [checkpoint, output] = positionals;
  if (checkpoint === undefined || output === undefined || positionals.length > 2) throw new Error(USAGE);
  for (const folder of [checkpoint, ...(values.also ?? [])]) {
    if (!existsSync(folder)) throw new Error(`${folder} is not there.`);
  }
  assertPageBuilt();
  mkdirSync(output, { recursive: true });
  const { screenshots, tag, dtype, format, include, exclude, overflow, overwrite, backend, sha256 } = values;
  if (values['adapter-only'] && values['merge-adapter']) throw new Error(USAGE);
  const conversion: PageConversion = {
    ...given({ tag, dtype, format, include, exclude, overflow, overwrite, backend, sha256 }),
    ...given({
      kind: values['adapter-only'] ? 'adapter' : values['merge-adapter'] ? 'merged' : undefined,
      tpRules: values['tp-rule'],
      tpRank: values['tp-rank'],
      adapterName: values['adapter-name'],
      loraAlpha: values['lora-alpha'],
      loraR: values['lora-r'],
      loraRslora: values['lora-rslora'],
      dtypeFor: values['dtype-for'],
      maxShardSize: values['max-shard-size'],
      excludeFrozen: values['exclude-frozen'],
      trainableOnly: values['trainable-only'],
      stripPrefix: values['strip-prefix'],
      trimVocab: values['trim-vocab'],
      duplicateTied: values['duplicate-tied'],
      verify: values['no-verify'] ? false : undefined,
    }),
    checkpoint: realpathSync(checkpoint),
    partial: values.partial ?? false,
    also: (values.also ?? []).map((folder) => realpathSync(folder)),
    output: values.download ? undefined : realpathSync(output),
  };
  const served = await servePage();
  const browser = await launchBrowser({ gpu: values.backend === 'gpu' });
  const memory = watchMemory(browser);
  try {
    await openPage(browser.page, served.url);
    memory.start();
    const onStage = screenshots === undefined ? {} : { onStage: camera(browser, resolve(screenshots)) };
    const report = await convertInPage(browser.page, { ...conversion, ...onStage });
    if (values.download) await saveDownloads(browser, report.files.length, output);
    const { files, seconds, backend, bytesWritten, checks, warnings } = report;
    const peakMemory = memory.peak();
    console.log(JSON.stringify({ files, seconds, backend, bytesWritten, peakMemory, checks, warnings }));
  } finally {
    memory.stop();
    await browser.close();
    await served.close();
  }
}

/** Waits until so many downloads have ended, and moves them to a folder. */
async function saveDownloads(browser: TestBrowser, files: number, folder: string): Promise<void> {
  while (browser.finishedDownloads.length < files) await browser.page.waitForTimeout(20);
  takeDownloads(browser, folder);
}

/** The options that were given. */
function given<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

/** Saves a picture of each stage, numbered in their order. */
function camera(browser: TestBrowser, folder: string): (stage: string) => Promise<void> {
  mkdirSync(folder, { recursive: true });
  let taken = 0;
  return async (stage) => {
    taken += 1;
    await browser.page.screenshot({ path: join(folder, `${taken}-${stage}.png`), fullPage: true });
  };
}

/** Watches the memory of all processes of the browser. `peak` is the most bytes above what they took at `start`. */
function watchMemory({ pid }: TestBrowser): { start(): void; peak(): number; stop(): void } {
  let before = 0;
  let most = 0;
  let timer: ReturnType<typeof setInterval> | undefined;
  const look = (): void => {
    most = Math.max(most, readPss(pid));
  };
  return {
    start() {
      before = readPss(pid);
      most = before;
      timer = setInterval(look, MEMORY_MS);
    },
    peak: () => most - before,
    stop: () => clearInterval(timer),
  };
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  main().catch((error: unknown) => {
    const message = error instanceof Error ? error.message : String(error);
    console.error(error instanceof PageFailure ? `${message} (${error.code})` : message);
    process.exitCode = 1;
  });
}
