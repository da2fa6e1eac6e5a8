import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';

const HELPERS = fileURLToPath(new URL('../helpers', import.meta.url));

/** What the lock file asks for: one package that all need, one that only some platforms have. */
const LOCK = {
  '': { version: '1.0.0' },
  'node_modules/vite': { version: '8.0.0' },
  'node_modules/fsevents': { version: '2.0.0', optional: true },
};

let root: string;

/** A machine of its own: the script, a lock file, and programs that note how they were called. */
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'unshard-ensure-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  mkdirSync(join(root, 'test', 'helpers'), { recursive: true });
  mkdirSync(join(root, 'bin'));
  for (const name of ['ensure.mjs', 'find-chromium.mjs']) {
    copyFileSync(join(HELPERS, name), join(root, 'test', 'helpers', name));
  }
  const finder = join(root, 'test', 'helpers', 'find-chromium.mjs');
  writeFileSync(finder, readFileSync(finder, 'utf8').replaceAll("'/usr/bin/", `'${root}/bin/`));
  writeFileSync(join(root, 'package-lock.json'), JSON.stringify({ packages: LOCK }));
  program('sudo', '[ "$1" = -n ] && shift; exec "$@"');
});

/** Puts a program on the machine's path. */
function program(name: string, script: string): void {
  const path = join(root, 'bin', name);
  writeFileSync(path, `#!/bin/sh\necho "${name} $*" >> '${root}/calls'\n${script}\n`);
  chmodSync(path, 0o755);
}

/** Writes down packages as installed, the way npm does. */
function installed(packages: object): void {
  mkdirSync(join(root, 'node_modules'), { recursive: true });
  writeFileSync(join(root, 'node_modules', '.package-lock.json'), JSON.stringify({ packages }));
}

/** Puts a Playwright in place whose own Chromium is there once its command line has been run. */
function installPlaywright(): void {
  const folder = join(root, 'node_modules', 'playwright');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module', exports: './index.js' }));
  writeFileSync(join(folder, 'index.js'), `export const chromium = { executablePath: () => '${root}/own-chromium' };`);
  writeFileSync(
    join(folder, 'cli.js'),
    `import { copyFileSync, appendFileSync } from 'node:fs';
     appendFileSync('${root}/calls', 'playwright ' + process.argv.slice(2).join(' ') + '\\n');
     copyFileSync('${root}/bin/spare', '${root}/own-chromium');`,
  );
}

function ensure(...args: string[]): { status: number | null; stderr: string; calls: string[] } {
  const env = { PATH: `${join(root, 'bin')}:/bin` };
  const { status, stderr } = spawnSync(process.execPath, [join(root, 'test', 'helpers', 'ensure.mjs'), ...args], {
    env,
    encoding: 'utf8',
  });
  const log = join(root, 'calls');
  const calls = existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n') : [];
  return { status, stderr, calls: calls.filter((call) => !/^sudo|--version$/.test(call)) };
}

describe('the packages', () => {
  const NPM_CI = 'npm ci --ignore-scripts --include=dev --no-audit --no-fund';

  test.each<[string, object | undefined]>([
    ['none is installed', undefined],
    ['one is missing', { 'node_modules/fsevents': { version: '2.0.0' } }],
    ['one is of another version', { 'node_modules/vite': { version: '7.9.9' } }],
  ])('are installed where %s', (_, packages) => {
    program('npm', 'exit 0');
    if (packages) installed(packages);
    expect(ensure()).toMatchObject({ status: 0, calls: [NPM_CI] });
  });

  test('are left alone where all are there that this platform has', () => {
    program('npm', 'exit 0');
    installed({ 'node_modules/vite': { version: '8.0.0' } });
    expect(ensure()).toMatchObject({ status: 0, calls: [] });
  });

  test('that cannot be installed end the command with what to do', () => {
    program('npm', 'exit 1');
    const { status, stderr } = ensure();
    expect(status).toBe(1);
    expect(stderr).toContain('Check the network');
  });
});

describe('the browser', () => {
  const CHROMIUM = 'echo "Chromium 156.0.1 built on Debian"';
  const INSTALLS = `printf '#!/bin/sh\\n${CHROMIUM}' > "$(dirname "$0")/chromium"; chmod +x "$(dirname "$0")/chromium"`;

  beforeEach(() => {
    installed({ 'node_modules/vite': { version: '8.0.0' } });
    installPlaywright();
    program('spare', CHROMIUM);
  });

  test('is taken from the system', () => {
    program('chromium', CHROMIUM);
    expect(ensure('--browser')).toMatchObject({ status: 0, calls: [] });
  });

  test('is not looked for unless it is asked for', () => {
    expect(ensure()).toMatchObject({ status: 0, calls: [] });
  });

  test('is installed with the packages of the system', () => {
    program('apt-get', `[ "$1" = update ] || { ${INSTALLS}; }`);
    expect(ensure('--browser')).toMatchObject({ status: 0, calls: ['apt-get update', 'apt-get install -y chromium'] });
    expect(ensure('--browser').calls).toHaveLength(2);
  });

  test('is downloaded by Playwright where the system has no packages', () => {
    program('chromium-browser', 'echo "To install Chromium, run: snap install chromium"');
    program('apt-get', 'exit 100');
    expect(ensure('--browser')).toMatchObject({
      status: 0,
      calls: ['apt-get update', 'playwright install chromium'],
    });
    expect(ensure('--browser').calls).toHaveLength(2);
  });

  test('that cannot be had ends the command with what to do', () => {
    program('spare', 'exit 127');
    const { status, stderr } = ensure('--browser');
    expect(status).toBe(1);
    expect(stderr).toContain('set CHROMIUM to the path');
  });
});
