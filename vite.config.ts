import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig, type Plugin, type UserConfig } from 'vite';

/** The page: `vite build`. Paths are relative, so that it can be served from any folder of a static host. */
const page: UserConfig = {
  base: './',
  build: { outDir: 'dist/page', target: 'es2023', assetsInlineLimit: 0 },
  worker: { format: 'es' },
};

/** The library for browsers and other bundlers: `vite build --mode library`. */
const library: UserConfig = {
  publicDir: false,
  build: {
    outDir: 'dist/lib',
    target: 'es2023',
    minify: false,
    lib: { entry: 'src/index.ts', formats: ['es'], fileName: 'index' },
    rolldownOptions: { external: ['fflate', 'hash-wasm'] },
  },
};

/**
 * Writes characters beyond Latin-1 as escapes. One of them in a module makes V8 keep and parse all of its text with two
 * bytes for each character.
 */
const oneByte: Plugin = {
  name: 'one-byte',
  generateBundle(_, bundle) {
    for (const chunk of Object.values(bundle)) {
      if (chunk.type !== 'chunk') continue;
      chunk.code = chunk.code.replace(
        /[^\0-\xff]/g,
        (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
      );
    }
  },
};

/** What `npx unshard` runs can be run: npm sees to that when it installs, and not when the page is built once more. */
const executable: Plugin = {
  name: 'executable',
  writeBundle: ({ dir = '' }, bundle) => {
    if ('cli.js' in bundle) chmodSync(join(dir, 'cli.js'), 0o755);
  },
};

/** Without comments and spaces, which are read at every start; names stay, for traces. */
const minify = { compress: true, mangle: false, codegen: true } as const;

/** The library for Node and the command line: `vite build --mode node`. */
const node: UserConfig = {
  publicDir: false,
  // Bundled: the modules of the dependencies, not the scripts that Node would take, which it has to analyse at every start.
  ssr: { noExternal: true },
  plugins: [oneByte, executable],
  build: {
    outDir: 'dist/node',
    target: 'node20',
    minify: false,
    ssr: true,
    rolldownOptions: {
      input: { node: 'src/node.ts', cli: 'src/cli/main.ts' },
      // Side by side: who starts a thread looks for it in its own folder.
      output: { chunkFileNames: '[name]-[hash].js', minify },
    },
  },
};

/**
 * The threads of the library for Node, beside it: `vite build --mode thread`. By itself, so that a thread loads what it
 * needs and nothing else.
 */
const thread: UserConfig = {
  ...node,
  build: {
    ...node.build,
    emptyOutDir: false,
    rolldownOptions: { input: { thread: 'src/thread.ts' }, output: { minify } },
  },
};

const CONFIGS: Readonly<Record<string, UserConfig>> = { library, node, thread };

export default defineConfig(({ mode }) => CONFIGS[mode] ?? page);
