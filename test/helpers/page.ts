import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BrowserContext, type CDPSession, chromium, type Page } from 'playwright';
import { chromiumLaunch } from './chromium.js';

/** A running Chromium with a profile of its own. */
export interface TestBrowser {
  readonly context: BrowserContext;
  /** The one tab that is open. Nothing is loaded in it yet. */
  readonly page: Page;
  /** Process id of the browser's main process, for `readPss`. */
  readonly pid: number;
  /** Folder that downloads go to, each under the name that the page gave it. */
  readonly downloads: string;
  /** The end states of the downloads so far, oldest first. */
  readonly finishedDownloads: readonly DownloadEnd[];
  /** Ends the browser and removes its profile and downloads. */
  close(): Promise<void>;
}

/** How a download ended. */
export interface DownloadEnd {
  readonly name: string;
  readonly state: 'completed' | 'canceled';
}

/** What a test browser is to have. */
export interface TestBrowserOptions {
  /** A software WebGPU adapter. Default true; false gives a browser without any adapter. */
  readonly gpu?: boolean;
  /** A host name that leads to localhost, and is not trusted as localhost is. */
  readonly plainHost?: string;
}

/**
 * Without the first a headless Chromium closes itself as soon as a page asks to write to a local folder; with it folders
 * that are dropped on a page are granted for reading and writing. Without the second it asks after ten downloads, which
 * nobody sees.
 */
const GRANTED = { profile: { default_content_setting_values: { file_system_write_guard: 1, automatic_downloads: 1 } } };

/** Longest time for a start of the browser and for each action on a page, in milliseconds: long, for machines under load. */
const PATIENCE_MS = 120_000;

/** Starts a headless Chromium that grants dropped folders and saves downloads without asking. */
export async function launchBrowser(options: TestBrowserOptions = {}): Promise<TestBrowser> {
  const home = mkdtempSync(join(tmpdir(), 'unshard-browser-'));
  const profile = join(home, 'profile');
  const downloads = join(home, 'downloads');
  mkdirSync(join(profile, 'Default'), { recursive: true });
  mkdirSync(downloads);
  writeFileSync(join(profile, 'Default', 'Preferences'), JSON.stringify(GRANTED));
  const { args, ...launch } = chromiumLaunch(options.gpu ?? true);
  const hosts = options.plainHost ? [`--host-resolver-rules=MAP ${options.plainHost} localhost`] : [];
  const context = await chromium.launchPersistentContext(profile, {
    ...launch,
    args: [...(args ?? []), ...hosts],
    headless: true,
    timeout: PATIENCE_MS,
    ignoreDefaultArgs: ['--disable-dev-shm-usage'],
  });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await onlyPage(context);
  const session = await context.newCDPSession(page);
  return {
    context,
    page,
    pid: mainProcess(profile),
    downloads,
    finishedDownloads: await followDownloads(session, downloads),
    async close() {
      await context.close();
      rmSync(home, { recursive: true, force: true, maxRetries: 20 });
    },
  };
}

/**
 * The one tab of a browser that was started. Sometimes there is a second one in front of it, and a tab behind another draws
 * and takes clicks once in a while only.
 */
async function onlyPage(context: BrowserContext): Promise<Page> {
  const [page = await context.newPage(), ...others] = context.pages();
  await Promise.all(others.map((other) => other.close()));
  context.on('page', (late) => void late.close());
  await page.bringToFront();
  return page;
}

/**
 * Drops files and folders of the local disk on the element that `selector` finds. The page's drop handler gets one
 * item for each path, in this order.
 */
export async function dropFolders(page: Page, selector: string, paths: readonly string[]): Promise<void> {
  const box = await page.locator(selector).boundingBox();
  if (box === null) throw new Error(`${selector} cannot be seen, so nothing can be dropped on it.`);
  const session = await page.context().newCDPSession(page);
  const drag = {
    x: box.x + box.width / 2,
    y: box.y + box.height / 2,
    data: { items: [], files: [...paths], dragOperationsMask: 1 },
  };
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const) {
    await session.send('Input.dispatchDragEvent', { type, ...drag });
  }
  await session.detach();
}

async function followDownloads(session: CDPSession, folder: string): Promise<DownloadEnd[]> {
  const names = new Map<string, string>();
  const ends: DownloadEnd[] = [];
  session.on('Browser.downloadWillBegin', ({ guid, suggestedFilename }) => names.set(guid, suggestedFilename));
  session.on('Browser.downloadProgress', ({ guid, state }) => {
    if (state !== 'inProgress') ends.push({ name: names.get(guid) ?? guid, state });
  });
  await session.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: folder, eventsEnabled: true });
  return ends;
}

/** The process that was started with this profile and is nobody's helper. Playwright does not tell its id. */
function mainProcess(profile: string): number {
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    const args = commandLine(name);
    if (args.includes(`--user-data-dir=${profile}`) && !args.some((arg) => arg.startsWith('--type='))) {
      return Number(name);
    }
  }
  throw new Error(`No browser runs with the profile ${profile}.`);
}

function commandLine(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}
