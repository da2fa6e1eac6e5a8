import { defineConfig, type UserConfig } from 'vite';

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

/** The library for Node and the command line: `vite build --mode node`. */
const node: UserConfig = {
  publicDir: false,
  build: {
    outDir: 'dist/node',
    target: 'node20',
    minify: false,
    ssr: true,
    rolldownOptions: {
      input: { node: 'src/node.ts', cli: 'src/cli/main.ts' },
      // Side by side: who starts a thread looks for it in its own folder.
      output: { chunkFileNames: '[name]-[hash].js' },
    },
  },
};

/**
 * The threads of the library for Node, beside it: `vite build --mode thread`. By itself, so that a thread loads what it
 * needs and nothing else.
 */
const thread: UserConfig = {
  ...node,
  build: { ...node.build, emptyOutDir: false, rolldownOptions: { input: { thread: 'src/thread.ts' } } },
};

const CONFIGS: Readonly<Record<string, UserConfig>> = { library, node, thread };

export default defineConfig(({ mode }) => CONFIGS[mode] ?? page);
