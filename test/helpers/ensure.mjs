/**
 * Puts in place what `npm start` and `npm test` need on a fresh machine: the packages of the lock file and, with
 * `--browser`, a Chromium. It runs before anything is installed, so it imports only what Node has.
 */

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { chromiumPath, isChromium } from './find-chromium.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

ensurePackages();
if (process.argv.includes('--browser')) await ensureBrowser();

function ensurePackages() {
  if (hasPackages()) return;
  console.log('Installing the packages of package-lock.json …');
  // No scripts: no package needs its own, and ours would build what the caller builds next.
  const done = npm('ci', '--ignore-scripts', '--include=dev', '--no-audit', '--no-fund');
  if (!done) fail('The packages could not be installed. Check the network, then run the command again.');
}

/** Compares the lock file with what npm noted when it installed: times do not tell, a checkout changes them. */
function hasPackages() {
  const wanted = packagesOf('package-lock.json');
  const present = packagesOf('node_modules/.package-lock.json');
  return Object.entries(wanted).every(([path, { version, optional }]) => {
    const found = present[path];
    return path === '' || (found === undefined ? optional === true : found.version === version);
  });
}

function packagesOf(lockFile) {
  try {
    return JSON.parse(readFileSync(`${ROOT}/${lockFile}`, 'utf8')).packages;
  } catch (error) {
    if (error.code === 'ENOENT') return {};
    throw error;
  }
}

async function ensureBrowser() {
  if (chromiumPath() !== undefined || (await hasOwnChromium())) return;
  console.log('Installing Chromium for the tests …');
  const asRoot = process.getuid?.() === 0 ? [] : ['sudo', '-n'];
  const packaged =
    run(...asRoot, 'apt-get', 'update') && run(...asRoot, 'apt-get', 'install', '-y', 'chromium') && chromiumPath();
  if (packaged) return;
  const downloaded = run(process.execPath, `${ROOT}/node_modules/playwright/cli.js`, 'install', 'chromium');
  if (downloaded && (await hasOwnChromium())) return;
  fail(
    'There is no Chromium that starts, and none could be installed. ' +
      'Install Chromium or Google Chrome, set CHROMIUM to the path of its program, then run the command again.',
  );
}

/** True where Playwright has downloaded a Chromium that starts. */
async function hasOwnChromium() {
  const { chromium } = await import('playwright');
  return isChromium(chromium.executablePath());
}

/** npm as it was started, or the one that the shell finds. */
function npm(...args) {
  const script = process.env['npm_execpath'];
  return script?.endsWith('.js') ? run(process.execPath, script, ...args) : run('npm', ...args);
}

/** True where the command was found and ended well. */
function run(command, ...args) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const shell = process.platform === 'win32' && command === 'npm';
  return spawnSync(command, args, { cwd: ROOT, env, shell, stdio: ['ignore', 'inherit', 'inherit'] }).status === 0;
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
