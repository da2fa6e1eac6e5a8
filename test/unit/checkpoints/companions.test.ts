import { describe, expect, test } from 'vitest';
import { inspect } from '../../../src/checkpoints/inspect.js';
import { run } from '../../../src/engine/run.js';
import { memoryOutput, memoryTree } from '../../../src/io/memory.js';
import { plan } from '../../../src/plan/make.js';
import { PyOrdered, tensorOf } from '../../helpers/deepspeed/python.js';
import { small } from '../../helpers/deepspeed/small.js';
import { saveZip } from '../../helpers/deepspeed/torch-save.js';
import { writeCheckpoint } from '../../helpers/deepspeed/write.js';
import { latin1 } from '../../helpers/zip.js';

/** Files that `from_pretrained` reads. */
const COPIED = [
  ...['config.json', 'generation_config.json', 'preprocessor_config.json', 'tokenizer.json', 'tokenizer_config.json'],
  ...['special_tokens_map.json', 'added_tokens.json', 'vocab.json', 'merges.txt', 'vocab.txt', 'tokenizer.model'],
  ...['spiece.model', 'sentencepiece.bpe.model', 'source.spm', 'chat_template.jinja', 'qwen.tiktoken'],
];

/** Files that belong to the run, to adapters, or that are code. */
const LEFT = [
  ...['adapter_config.json', 'training_args.bin', 'modeling_custom.py', 'zero_to_fp32.py', 'trainer_state.json'],
  ...['rng_state_0.pth', 'scheduler.pt', 'optimizer.pt', 'README.md', 'config.json.bak', 'my_config.json'],
];

/** A checkpoint in `checkpoint-7/` with more files beside its tag folder. */
function inRun(beside: Readonly<Record<string, Uint8Array>>): Record<string, Uint8Array> {
  const { files } = writeCheckpoint(small(3, { folder: 'checkpoint-7/global_step7' }));
  const more = Object.entries(beside).map(([name, bytes]) => [`checkpoint-7/${name}`, bytes] as const);
  return { ...files, ...Object.fromEntries(more) };
}

/** A safetensors file of tensors without data. */
function safetensors(tensors: Readonly<Record<string, readonly number[]>>): Uint8Array {
  const entries = Object.entries(tensors).map(([name, shape]) => [
    name,
    { dtype: 'BF16', shape, data_offsets: [0, 0] },
  ]);
  const header = latin1(JSON.stringify(Object.fromEntries(entries)));
  const length = new Uint8Array(new BigUint64Array([BigInt(header.length)]).buffer);
  return Uint8Array.from([...length, ...header]);
}

describe('files beside the tag folder', () => {
  const beside = Object.fromEntries([...COPIED, ...LEFT].map((name) => [name, latin1(`{"name": "${name}"}`)]));

  test('are copied where from_pretrained reads them, and only then', async () => {
    const input = memoryTree(inRun(beside));
    const output = memoryOutput();
    await run(plan(await inspect(input), { dtype: 'keep' }), { input, output });
    expect([...output.files.keys()].sort()).toEqual([...COPIED, 'model.safetensors'].sort());
    for (const name of COPIED) expect(output.files.get(name)).toEqual(beside[name]);
  });

  test('are those of the chosen checkpoint, not of another one', async () => {
    const other = writeCheckpoint(small(3, { folder: 'checkpoint-3/global_step3' })).files;
    const files = { ...inRun(beside), ...other, 'checkpoint-3/vocab.json': latin1('{}') };
    const { companions } = await inspect(memoryTree(files), { tag: 'global_step3' });
    expect(companions.map(({ name }) => name)).toEqual(['vocab.json']);
  });

  test('lie in the picked folder where that is the tag folder itself', async () => {
    const { files } = writeCheckpoint(small(3, { folder: '' }));
    const { companions } = await inspect(memoryTree({ ...files, 'config.json': latin1('{"a": 1}') }));
    expect(companions.map(({ name, text }) => [name, text])).toEqual([['config.json', '{"a": 1}']]);
  });

  test('config.json comes with its text, unless it is too large to be one', async () => {
    const large = latin1(' '.repeat(4 * 2 ** 20 + 1));
    const texts = async (config: Uint8Array) =>
      (await inspect(memoryTree(inRun({ 'config.json': config })))).companions.map(({ text }) => text);
    expect(await texts(latin1('{}'))).toEqual(['{}']);
    expect(await texts(large)).toEqual([undefined]);
  });
});

describe('configurations of adapters', () => {
  const lora = (adapter: string) => [
    { name: `q.lora_A.${adapter}.weight`, shape: [2, 3] },
    { name: `q.lora_B.${adapter}.weight`, shape: [3, 2] },
  ];

  /** Adapter, path and text of each configuration, of a run with the adapters that are given. */
  async function found(adapters: readonly string[], beside: Readonly<Record<string, string>>) {
    const { files } = writeCheckpoint(small(3, { folder: 'run/global_step7', groups: [adapters.flatMap(lora)] }));
    const more = Object.entries(beside).map(([path, text]) => [`run/${path}`, latin1(text)] as const);
    const { companions, sources } = await inspect(memoryTree({ ...files, ...Object.fromEntries(more) }));
    return companions.map(({ adapter, source, name, text }) => [adapter, sources[source]?.path, name, text]);
  }

  test('come with their text: the one beside the tag folder, and those in folders of their adapters', async () => {
    const beside = { 'adapter_config.json': '{}', 'policy/adapter_config.json': '{"r": 1}' };
    expect(await found(['default', 'policy'], beside)).toEqual([
      ['default', 'run/adapter_config.json', 'adapter_config.json', '{}'],
      ['policy', 'run/policy/adapter_config.json', 'adapter_config.json', '{"r": 1}'],
    ]);
  });

  test('are not looked for in folders of other names, nor in an empty one', async () => {
    const beside = { 'checkpoint-1/adapter_config.json': '{}', 'policy/other.json': '{}' };
    expect(await found(['policy'], beside)).toEqual([]);
  });

  test('too large to be one comes without its text', async () => {
    const beside = { 'adapter_config.json': ' '.repeat(4 * 2 ** 20 + 1) };
    expect(await found(['default'], beside)).toMatchObject([
      ['default', 'run/adapter_config.json', 'adapter_config.json', undefined],
    ]);
  });
});

describe('weight files beside the tag folder', () => {
  const emptyBin = (shape: readonly number[], bytes: Uint8Array) =>
    saveZip(new PyOrdered(new Map([['w', tensorOf('BF16', shape, bytes, 'other')]]))).bytes;

  const codes = async (beside: Readonly<Record<string, Uint8Array>>) =>
    (await inspect(memoryTree(inRun(beside)))).warnings.map(({ code, message }) => [code, message.split(' ')[0]]);

  test('are called hollow where their tensors have no elements', async () => {
    expect(await codes({ 'model.safetensors': safetensors({ a: [0], b: [0] }) })).toEqual([
      ['hollow-weights', 'checkpoint-7/model.safetensors'],
    ]);
    expect(await codes({ 'pytorch_model.bin': emptyBin([0], new Uint8Array()) })).toEqual([
      ['hollow-weights', 'checkpoint-7/pytorch_model.bin'],
    ]);
  });

  test('are not where they have some', async () => {
    expect(await codes({ 'pytorch_model.bin': emptyBin([1], new Uint8Array(2)) })).toEqual([]);
    expect(await codes({ 'model.safetensors': safetensors({}) })).toEqual([]);
  });

  test('do no harm where they are damaged, and are not looked at under another name', async () => {
    expect(await codes({ 'model.safetensors': latin1('no weights'), 'pytorch_model.bin': new Uint8Array() })).toEqual(
      [],
    );
    expect(await codes({ 'adapter_model.safetensors': safetensors({ a: [0] }) })).toEqual([]);
  });

  test('are never copied', async () => {
    const { companions } = await inspect(memoryTree(inRun({ 'model.safetensors': safetensors({ a: [0] }) })));
    expect(companions).toEqual([]);
  });
});
