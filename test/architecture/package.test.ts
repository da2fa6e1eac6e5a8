import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './modules.js';

const pkg = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
const ignored = readFileSync(join(ROOT, '.gitignore'), 'utf8').split('\n').filter(Boolean);

/** What a user of the page or the library runs beside our own code, and why each is worth it. */
const RUNTIME_DEPENDENCIES: Readonly<Record<string, string>> = {
  comlink: 'calls between the page and its worker',
  fflate: 'inflates the records of zip files that were packed again by another program',
  'hash-wasm': 'takes the SHA-256 of output files piece by piece, which no browser does',
  'idb-keyval': 'remembers the handles of recent folders',
  preact: 'renders the page',
};

/** What may lie at the top of the repository. */
const TOP_LEVEL = [
  /^(\.ci|\.github|\.gitignore|public|shaders|src|test)$/,
  /^(README|CHANGELOG)\.md$/,
  /^LICENSE$/,
  /^index\.html$/,
  /^(package|package-lock|biome|tsconfig|tsconfig\.\w+)\.json$/,
  /^(vite|vitest|vitest\.\w+)\.config\.ts$/,
];

test('the package has a name, a version, a licence and an oldest Node', () => {
  expect(pkg.name).toBe('unshard');
  expect(pkg.version).toMatch(/^\d+\.\d+\.\d+$/);
  expect(pkg.license).toBe('Apache-2.0');
  expect(pkg.type).toBe('module');
  expect(pkg.engines.node).toBe('>=20.19');
  expect(readFileSync(join(ROOT, 'LICENSE'), 'utf8')).toMatch(/^\s+Apache License\n\s+Version 2\.0, January 2004\n/);
});

test('every dependency is of one exact version, and the lock file has the same', () => {
  const asked: Record<string, string> = { ...pkg.dependencies, ...pkg.devDependencies };
  for (const [name, version] of Object.entries(asked)) {
    expect(version, name).toMatch(/^\d+\.\d+\.\d+$/);
    expect(lock.packages[`node_modules/${name}`]?.version, name).toBe(version);
  }
  expect(lock.packages[''].dependencies).toEqual(pkg.dependencies);
  expect(lock.packages[''].devDependencies).toEqual(pkg.devDependencies);
});

test('the run time needs these packages and no others', () => {
  expect(Object.keys(pkg.dependencies).sort()).toEqual(Object.keys(RUNTIME_DEPENDENCIES).sort());
  expect(Object.keys(pkg)).not.toEqual(expect.arrayContaining(['peerDependencies']));
  expect(Object.keys(pkg)).not.toEqual(expect.arrayContaining(['optionalDependencies']));
});

test('packages come from the registry, with the hash of their content', () => {
  const locked = Object.entries<{ resolved?: string; integrity?: string }>(lock.packages).filter(
    ([path]) => path !== '',
  );
  // Without an address, npm takes the package from the registry that the user has set.
  const isGood = ({ resolved, integrity }: { resolved?: string; integrity?: string }) =>
    (resolved ?? 'https://registry.npmjs.org/').startsWith('https://registry.npmjs.org/') &&
    integrity?.startsWith('sha512-') === true;
  expect(locked.filter(([, entry]) => !isGood(entry)).map(([path]) => path)).toEqual([]);
  expect(locked.length).toBeGreaterThan(50);
});

test('the entry points are those of the build', () => {
  expect(pkg.bin).toEqual({ unshard: 'dist/node/cli.js' });
  expect(Object.keys(pkg.exports)).toEqual(['.', './node']);
  for (const { types, default: code } of Object.values<{ types: string; default: string }>(pkg.exports)) {
    expect(types).toMatch(/^\.\/dist\/types\/\w+\.d\.ts$/);
    expect(code).toMatch(/^\.\/dist\/(lib|node)\/\w+\.js$/);
  }
  // One module under both names, so that an error of the one is an error of the other.
  expect(pkg.exports['.'].node).toBe(pkg.exports['./node'].default);
});

test('the scripts that people and machines call are there', () => {
  const called = ['start', 'build', 'check', 'test', 'test:readers', 'browser', 'bench'];
  expect(Object.keys(pkg.scripts)).toEqual(expect.arrayContaining(called));
  const run = join(ROOT, '.ci', 'run');
  expect(statSync(run).mode & 0o111).toBe(0o111);
  const lines = readFileSync(run, 'utf8').split('\n');
  expect(lines[0]).toBe('#!/usr/bin/env bash');
  const steps = lines.filter((line) => line.startsWith('step npm')).map((line) => line.slice('step '.length));
  expect(steps).toEqual(['npm ci', 'npm run check', 'npm test', 'npm run test:readers']);
});

test('nothing lies at the top of the repository that does not belong there', () => {
  const isIgnored = (name: string) =>
    name === '.git' ||
    ignored.includes(`${name}/`) ||
    ignored.some((line) => line.startsWith('*.') && name.endsWith(line.slice(1)));
  const stray = readdirSync(ROOT).filter((name) => !isIgnored(name) && !TOP_LEVEL.some((rule) => rule.test(name)));
  expect(stray).toEqual([]);
});
