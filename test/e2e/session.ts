/**
 * A browser with the built page, that keeps watch: whatever a test does, the page must ask nothing of other hosts, break
 * no rule of its Content-Security-Policy, and log no error.
 *
 * @module
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright';
import { afterAll, afterEach, beforeAll, expect, onTestFinished } from 'vitest';
import { launchBrowser, type TestBrowser } from '../helpers/page.js';
import { type ServedPage, servePage } from '../helpers/serve.js';
import { assertPageBuilt, openPage } from './drive.js';

/** What a session is to be. */
export interface SessionOptions {
  /** A software GPU. Default true. */
  readonly gpu?: boolean;
  /** Headers that isolate the page from other origins. Default false. */
  readonly isolation?: boolean;
  /** Deletes the folder pickers, as in browsers that have none. Default false. */
  readonly noPickers?: boolean;
  /** Opens the page over plain http from a host that is not localhost. Default false. */
  readonly plainHttp?: boolean;
}

/** A name that no browser trusts. */
const PLAIN_HOST = 'machine.test';

/** A browser for the tests of one file. The members can be used once the tests run. */
export interface Session {
  readonly page: Page;
  readonly browser: TestBrowser;
  readonly url: string;
  /** Addresses of all requests so far, of the page and of its worker. */
  readonly requests: readonly string[];
  /** Takes the complaints so far, so that the test that provoked them does not fail for them. */
  takeComplaints(): string[];
}

/** Starts a browser before the tests of a file and ends it after them. */
export function useSession(options: SessionOptions = {}): Session {
  let served: ServedPage | undefined;
  let browser: TestBrowser | undefined;
  const complaints: string[] = [];
  const requests: string[] = [];

  beforeAll(async () => {
    assertPageBuilt();
    served = await servePage({ isolation: options.isolation ?? false });
    if (options.plainHttp) served = { ...served, url: served.url.replace('//localhost', `//${PLAIN_HOST}`) };
    browser = await launchBrowser({
      gpu: options.gpu ?? true,
      ...(options.plainHttp ? { plainHost: PLAIN_HOST } : {}),
    });
    const { context, page } = browser;
    context.on('request', (request) => requests.push(request.url()));
    page.on('pageerror', (error) => complaints.push(`uncaught: ${error.message}`));
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
    });
    await page.exposeFunction('reportViolation', (rule: string) => complaints.push(`violation of ${rule}`));
    await page.addInitScript(() => {
      addEventListener('securitypolicyviolation', ({ effectiveDirective }) => {
        Reflect.get(globalThis, 'reportViolation')(effectiveDirective);
      });
    });
    if (options.noPickers) {
      await page.addInitScript(() => {
        for (const name of ['showDirectoryPicker', 'showSaveFilePicker']) Reflect.deleteProperty(globalThis, name);
      });
    }
    await openPage(page, served.url);
  });

  afterEach(() => {
    expect(complaints.splice(0)).toEqual([]);
    const origin = served && new URL(served.url).origin;
    expect(requests.filter((url) => !url.startsWith('blob:') && new URL(url).origin !== origin)).toEqual([]);
  });

  afterAll(async () => {
    await browser?.close();
    await served?.close();
  });

  return {
    get page() {
      return started(browser).page;
    },
    get browser() {
      return started(browser);
    },
    get url() {
      return started(served).url;
    },
    requests,
    takeComplaints: () => complaints.splice(0),
  };
}

/** An empty folder that is removed when the test ends. */
export function emptyFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'unshard-e2e-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true, maxRetries: 20 }));
  return path;
}

function started<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('The session has not started.');
  return value;
}
