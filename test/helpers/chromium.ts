import type { LaunchOptions } from 'playwright';
import { chromiumPath } from './find-chromium.mjs';

export { chromiumPath };

/** Flags that keep a test browser quiet on a machine without a network. */
export const QUIET_FLAGS = [
  '--no-sandbox',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Flags that give a WebGPU adapter on a machine without a GPU. */
export const SOFTWARE_GPU_FLAGS = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'];

/** Launch options of a test browser, with a software WebGPU adapter unless `gpu` is false. */
export function chromiumLaunch(gpu = true): LaunchOptions {
  // Without one, Playwright takes the Chromium that it has downloaded.
  const executablePath = chromiumPath();
  return {
    args: gpu ? [...QUIET_FLAGS, ...SOFTWARE_GPU_FLAGS] : QUIET_FLAGS,
    ...(executablePath === undefined ? {} : { executablePath }),
  };
}
