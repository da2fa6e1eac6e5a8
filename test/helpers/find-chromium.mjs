import { spawnSync } from 'node:child_process';

/** Where Debian, Ubuntu and Fedora put Chromium, and Google its own. */
const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/**
 * The path of a Chromium that this system has: `CHROMIUM` from the environment, or a usual place. Undefined where there
 * is none that starts. Ubuntu has a script by that name which only tells how to get one.
 */
export function chromiumPath() {
  return [process.env['CHROMIUM'], ...PLACES].find((path) => path !== undefined && isChromium(path));
}

/** True where the program at `path` starts and says that it is a Chromium. */
export function isChromium(path) {
  return /Chrom(e|ium)\D+\d+/.test(spawnSync(path, ['--version'], { encoding: 'utf8', timeout: 30_000 }).stdout ?? '');
}
