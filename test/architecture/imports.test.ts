import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseModule, ROOT, reachable, readModules, scriptsOf } from './modules.js';
import { layerOf, wrongGlobals, wrongImports } from './rules.js';

/** A file that is longer cannot be read in one sitting. */
const MAX_LINES = 600;

/** From here on a file is worth a look. */
const MANY_LINES = 400;

const source = readModules('src');
const tests = readModules('test');
const configs = readdirSync(ROOT).filter((name) => /^vite.*\.config\.ts$/.test(name));
const inProject = (path: string) => existsSync(join(ROOT, path));

/** The modules of a source tree that holds only these. */
const tree = (files: Readonly<Record<string, string>>) =>
  Object.entries(files).map(([path, text]) => parseModule(path, text));

describe('the source tree', () => {
  test('imports only downwards, and packages and built-ins only where they belong', () => {
    expect(wrongImports(source, inProject)).toEqual([]);
  });

  test('uses what only one platform has in its adapters alone', () => {
    expect(wrongGlobals(source)).toEqual([]);
  });

  test('has every module and shader in use', () => {
    const roots = ['src/index.ts', 'src/node.ts', 'src/cli/main.ts', ...scriptsOf('index.html')];
    const used = reachable(source, roots);
    const shaders = readdirSync(join(ROOT, 'shaders')).map((name) => `shaders/${name}`);
    const modules = source.map(({ path }) => path).filter((path) => !path.endsWith('.d.ts'));
    expect([...modules, ...shaders].filter((path) => !used.has(path))).toEqual([]);
  });

  test('lies in layers whose order is known', () => {
    expect(source.map(({ path }) => path).filter((path) => layerOf(path) === undefined)).toEqual([]);
  });
});

describe('the tests', () => {
  test('have every helper in use', () => {
    const scripts = Object.values<string>(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).scripts);
    const pages = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.html'))
      .map((name) => `test/${name}`);
    const named = [...scripts, ...configs.map((path) => readFileSync(join(ROOT, path), 'utf8'))];
    const roots = [
      ...named.flatMap((text) => text.match(/\btest\/[\w/.-]+\.(ts|mjs)\b/g) ?? []),
      ...pages.flatMap(scriptsOf),
      ...configs,
      ...tests.map(({ path }) => path).filter((path) => /\.(test|browser)\.ts$/.test(path)),
    ];
    const all = [...tests, ...configs.map((path) => parseModule(path, readFileSync(join(ROOT, path), 'utf8')))];
    const used = reachable(all, roots);
    expect(tests.map(({ path }) => path).filter((path) => !used.has(path))).toEqual([]);
  });
});

describe('every file', () => {
  const all = [...source, ...tests];

  test(`has at most ${MAX_LINES} lines`, () => {
    for (const { path, lines } of all) if (lines > MANY_LINES) console.warn(`${path} has ${lines} lines.`);
    expect(all.filter(({ lines }) => lines > MAX_LINES).map(({ path, lines }) => `${path}: ${lines}`)).toEqual([]);
  });

  test('exports by name', () => {
    expect(all.filter(({ hasDefaultExport }) => hasDefaultExport).map(({ path }) => path)).toEqual([]);
  });
});

describe('the rule of imports', () => {
  const there = () => true;

  test.each([
    ['src/formats/zip/read.ts', '../../io/types.js'],
    ['src/formats/zip/read.ts', '../../base/errors.js'],
    ['src/engine/cpu.ts', '../numeric/bits.js'],
    ['src/worker/client.ts', '../index.js'],
    ['src/ui/app.tsx', '../worker/client.js'],
    ['src/cli/main.ts', '../node.js'],
    ['src/cli/main.ts', 'node:fs'],
    ['src/cli/main.ts', '../../package.json'],
    ['src/checkpoints/deepspeed/zero0.ts', '../../numeric/convert.js'],
    ['src/formats/zip/read.ts', 'fflate'],
    ['src/engine/gpu/kernels.ts', '../../../shaders/gather.wgsl?raw'],
  ])('allows %s to import %s', (path, request) => {
    expect(wrongImports(tree({ [path]: `import * as x from '${request}';` }), there)).toEqual([]);
  });

  test.each([
    ['src/base/errors.ts', '../io/types.js'],
    ['src/formats/zip/read.ts', '../../checkpoints/inspect.js'],
    ['src/formats/zip/read.ts', '../../numeric/convert.js'],
    ['src/formats/zip/read.ts', '../../../package.json'],
    ['src/numeric/convert.ts', '../io/types.js'],
    ['src/engine/run.ts', '../index.js'],
    ['src/engine/run.ts', './gpu/backend.js'],
    ['src/engine/run.ts', '../io/node.js'],
    ['src/ui/app.tsx', '../node.js'],
    ['src/ui/app.tsx', '../cli/main.js'],
    ['src/formats/zip/read.ts', 'node:zlib'],
    ['src/formats/zip/read.ts', 'zlib'],
    ['src/plan/make.ts', 'fflate'],
    ['src/formats/zip/read.ts', 'some-package'],
    ['src/formats/zip/read.ts', '../../other/x.js'],
  ])('forbids %s to import %s, in whatever way', (path, request) => {
    const ways = [
      `import { x } from '${request}';`,
      `import type { X } from '${request}';`,
      `export * from '${request}';`,
      `export { x } from '${request}';`,
      `import '${request}';`,
      `const x = await import('${request}');`,
      `type X = import('${request}').X;`,
      `const x = new Worker(new URL('${request}', import.meta.url));`,
    ];
    for (const way of request.startsWith('.') ? ways : ways.slice(0, -1)) {
      expect(wrongImports(tree({ [path]: way }), there), way).toHaveLength(1);
    }
  });

  test('forbids an import that leads to no file', () => {
    const module = tree({ 'src/base/errors.ts': "import { x } from './gone.js';" });
    expect(wrongImports(module, () => false)).toEqual([
      'src/base/errors.ts imports src/base/gone.js, which is not there',
    ]);
  });
});

describe('the rule of platforms', () => {
  test.each([
    ['src/io/handles.ts', 'let x: FileSystemDirectoryHandle;'],
    ['src/ui/app.tsx', 'document.title = window.name;'],
    ['src/cli/main.ts', 'process.exit(1);'],
    ['src/plan/make.ts', '// A File of the navigator\nconst text = "document.title";'],
    [
      'src/plan/make.ts',
      'interface SourceFile { window: number; File: string }\nlet x: SourceFile; x.File = x.window;',
    ],
    ['src/plan/make.ts', 'function f(window: number, { File, navigator: x }: R) { return window + File + x; }'],
  ])('allows %s to say %s', (path, text) => {
    expect(wrongGlobals(tree({ [path]: text }))).toEqual([]);
  });

  test.each([
    ['src/plan/make.ts', 'let x: File;'],
    ['src/formats/zip/read.ts', 'Buffer.alloc(1);'],
    ['src/engine/run.ts', 'let x: Map<string, FileSystemFileHandle>;'],
    ['src/engine/run.ts', 'const cores = navigator.hardwareConcurrency;'],
    ['src/engine/run.ts', 'globalThis.navigator;'],
    ['src/engine/run.ts', 'let x: GPUDevice;'],
    ['src/worker/engine.worker.ts', 'document.title = "";'],
    ['src/io/memory.ts', 'new Blob([]);'],
    ['src/io/handles.ts', 'process.pid;'],
    ['src/ui/app.tsx', "fetch('https://example.com');"],
    ['src/ui/app.tsx', "eval('1');"],
  ])('forbids %s to say %s', (path, text) => {
    expect(wrongGlobals(tree({ [path]: text }))).toHaveLength(1);
  });
});

test('a module that nothing imports is found, and one that is the worker of another is in use', () => {
  const modules = tree({
    'src/a.ts': "import './b.js'; new Worker(new URL('./w.ts', import.meta.url));",
    'src/b.ts': "export type { T } from './a.js';",
    'src/w.ts': '',
    'src/lost.ts': "import './a.js';",
  });
  expect([...reachable(modules, ['src/a.ts'])].filter((path) => path.endsWith('.ts'))).toEqual([
    'src/a.ts',
    'src/w.ts',
  ]);
});

test('a default export is found', () => {
  expect(parseModule('src/a.ts', 'export default 1;').hasDefaultExport).toBe(true);
  expect(parseModule('src/a.ts', 'const a = 1; export { a as default };').hasDefaultExport).toBe(true);
  expect(parseModule('src/a.ts', 'export const a = 1;').hasDefaultExport).toBe(false);
});
