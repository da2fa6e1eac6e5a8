/**
 * The rules of the source tree, as functions from modules to the sentences that say what breaks them.
 *
 * @module
 */

import { builtinModules } from 'node:module';
import type { Module } from './modules.js';

/**
 * What each layer stands on directly; it may import whatever that stands on, too. Checkpoints stand on the conversions
 * because inspecting a ZeRO-0 checkpoint compares samples of master and copy.
 */
const STANDS_ON: Readonly<Record<string, readonly string[]>> = {
  base: [],
  io: ['base'],
  formats: ['io'],
  checkpoints: ['formats', 'numeric'],
  plan: ['checkpoints'],
  numeric: ['base'],
  engine: ['plan'],
  index: ['engine'],
  worker: ['index'],
  ui: ['worker'],
  node: ['index', 'thread'],
  thread: ['engine'],
  cli: ['node'],
};

/** Where the names of a platform may be used. */
const PLATFORMS: readonly { readonly names: RegExp; readonly allowed: RegExp }[] = [
  {
    names: /^(Blob|File|FileList|FileReader|FileReaderSync|FileSystem\w*|navigator)$/,
    allowed: /^src\/(io\/(blob|blob-streams|dom-failures|files|handles|opfs)\.ts|engine\/gpu\/|worker\/|ui\/)/,
  },
  { names: /^GPU\w*$/, allowed: /^src\/(engine\/gpu\/|worker\/|ui\/)/ },
  { names: /^(document|window|localStorage|indexedDB|HTML\w+|DragEvent)$/, allowed: /^src\/ui\// },
  {
    names: /^(Buffer|process|require|__dirname|__filename|NodeJS)$/,
    allowed: /^src\/(io\/node(-blocking)?\.ts|node\.ts|thread\.ts|cli\/)/,
  },
  { names: /^(fetch|XMLHttpRequest|WebSocket|EventSource|RTCPeerConnection)$/, allowed: /^src\/worker\/sample\.ts$/ },
  { names: /^(eval|Function)$/, allowed: /^$/ },
];

/** Where the built-in modules of Node may be imported. */
const NODE_ALLOWED = /^src\/(io\/node(-blocking)?\.ts|node\.ts|thread\.ts|cli\/)/;

/** Where each package may be imported. */
const PACKAGES: Readonly<Record<string, RegExp>> = {
  comlink: /^src\/(engine\/threads|worker|ui)\//,
  fflate: /^src\/formats\//,
  'hash-wasm': /^src\/engine\//,
  'idb-keyval': /^src\/ui\//,
  preact: /^src\/ui\//,
};

/** Modules that only some may import, beside those of their own folder. */
const PRIVATE: readonly { readonly module: RegExp; readonly allowed: RegExp }[] = [
  { module: /^src\/io\/node/, allowed: /^src\/(io\/node|node\.ts|thread\.ts|cli\/)/ },
  { module: /^src\/engine\/gpu\//, allowed: /^src\/(engine\/gpu\/|index\.ts|worker\/|ui\/)/ },
  { module: /^src\/\w+\.ts$/, allowed: /^src\/(\w+\.ts|worker\/|ui\/|cli\/)/ },
];

/** Imports that point up or sideways, reach a package or built-in out of place, or lead to no file. */
export function wrongImports(modules: readonly Module[], exists: (path: string) => boolean): string[] {
  return modules.flatMap(({ path, imports }) =>
    [...imports].flatMap((target) => {
      const reason = target.startsWith('src/') ? wrongModule(path, target) : wrongOutside(path, target, exists);
      const missing = target.startsWith('src/') && !exists(target) ? 'is not there' : undefined;
      const why = missing ?? reason;
      return why === undefined ? [] : [`${path} imports ${target}, which ${why}`];
    }),
  );
}

/** Names of a platform that are used where the code is to run everywhere. */
export function wrongGlobals(modules: readonly Module[]): string[] {
  return modules.flatMap(({ path, globals }) =>
    [...globals]
      .filter((name) => PLATFORMS.some(({ names, allowed }) => names.test(name) && !allowed.test(path)))
      .map((name) => `${path} uses ${name}`),
  );
}

/** The layer of a module: its folder, or its own name where it lies at the top. Undefined for a folder without rules. */
export function layerOf(path: string): string | undefined {
  const layer = /^src\/(\w+)/.exec(path)?.[1] ?? '';
  return Object.hasOwn(STANDS_ON, layer) ? layer : undefined;
}

function wrongModule(from: string, target: string): string | undefined {
  const [upper, lower] = [layerOf(from), layerOf(target)];
  if (upper === undefined || lower === undefined) return 'is in no layer';
  if (upper !== lower && !below(upper).has(lower)) return `is not below ${upper}`;
  const isPrivate = PRIVATE.some(({ module, allowed }) => module.test(target) && !allowed.test(from));
  return isPrivate ? 'is not for it' : undefined;
}

function wrongOutside(from: string, target: string, exists: (path: string) => boolean): string | undefined {
  // The command line tells its version.
  if (target === 'package.json' && from.startsWith('src/cli/')) return undefined;
  if (target.startsWith('shaders/')) return exists(target) ? undefined : 'is not there';
  if (target.startsWith('node:') || builtinModules.includes(target)) {
    return NODE_ALLOWED.test(from) ? undefined : 'is a built-in of Node';
  }
  const name = target.split('/')[0] ?? '';
  if (!Object.hasOwn(PACKAGES, name)) return 'is no package of the run time';
  return PACKAGES[name]?.test(from) ? undefined : 'is not used in this folder';
}

function below(layer: string): Set<string> {
  const layers = new Set(STANDS_ON[layer]);
  for (const lower of layers) for (const next of STANDS_ON[lower] ?? []) layers.add(next);
  return layers;
}
