import { playwright } from '@vitest/browser-playwright';
import { defineConfig } from 'vitest/config';
import { chromiumLaunch } from './test/helpers/chromium.js';

/** Limits in milliseconds that a slow machine under load keeps to: they cost time only where a test fails. */
export const PATIENCE = { testTimeout: 300_000, hookTimeout: 180_000, expect: { poll: { timeout: 60_000 } } } as const;

const node = { ...PATIENCE, environment: 'node' } as const;

export default defineConfig({
  test: {
    projects: [
      { test: { ...node, name: 'architecture', include: ['test/architecture/**/*.test.ts'] } },
      {
        test: {
          ...node,
          name: 'node',
          setupFiles: ['test/helpers/properties.ts'],
          include: ['test/{unit,contract,golden,hostile,cli}/**/*.test.ts'],
        },
      },
      {
        // Found in the middle of a test they would reload its page.
        optimizeDeps: { include: ['comlink', 'fflate', 'hash-wasm'] },
        test: {
          ...PATIENCE,
          name: 'browser',
          include: ['test/gpu/**/*.test.ts', 'test/{unit,contract}/**/*.browser.ts'],
          browser: {
            enabled: true,
            connectTimeout: 180_000,
            headless: true,
            screenshotFailures: false,
            provider: playwright({ launchOptions: chromiumLaunch() }),
            instances: [{ browser: 'chromium' }],
          },
        },
      },
      {
        test: {
          ...node,
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          fileParallelism: false,
        },
      },
    ],
  },
});
