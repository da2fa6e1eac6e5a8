import { preview } from 'vite';

/** The built page on a port of its own. */
export interface ServedPage {
  /** Address of the page, with a closing slash. */
  readonly url: string;
  close(): Promise<void>;
}

/** The two headers that give a page `SharedArrayBuffer`. A static host may not send them. */
const ISOLATION = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };

/**
 * Serves `dist/page` on a free port of localhost, as a plain static host does: `isolation` adds the headers for
 * cross-origin isolation, and without it none are sent.
 */
export async function servePage(options: { readonly isolation?: boolean } = {}): Promise<ServedPage> {
  const server = await preview({
    logLevel: 'error',
    preview: { host: 'localhost', port: 0, allowedHosts: true, headers: options.isolation ? ISOLATION : {} },
  });
  const url = server.resolvedUrls?.local[0];
  if (url === undefined) throw new Error('The preview server has no local address.');
  return { url, close: () => server.close() };
}
