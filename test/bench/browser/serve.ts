import { fileURLToPath } from 'node:url';
import { createServer } from 'vite';

/** The pages of this folder on a port of their own. */
export interface BenchPages {
  /** Address of one of them. */
  url(name: string): string;
  close(): Promise<void>;
}

/** Serves the pages of this folder, translated when they are asked for. */
export async function serveBenchPages(): Promise<BenchPages> {
  const server = await createServer({
    root: fileURLToPath(new URL('../../..', import.meta.url)),
    configFile: false,
    logLevel: 'error',
    server: { host: 'localhost', port: 0, hmr: false, watch: null },
    optimizeDeps: { noDiscovery: true },
  });
  await server.listen();
  const { origin } = new URL(server.resolvedUrls?.local[0] ?? '');
  return { url: (name) => `${origin}/test/bench/browser/${name}`, close: () => server.close() };
}
