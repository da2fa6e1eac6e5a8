import { playwright } from '@vitest/browser-playwright';
import { defineConfig } from 'vitest/config';
import { chromiumLaunch } from './test/helpers/chromium.js';

const node = { environment: 'node', testTimeout: 60_000 } as const;

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
        test: {
          name: 'browser',
          include: ['test/gpu/**/*.test.ts', 'test/{unit,contract}/**/*.browser.ts'],
          testTimeout: 120_000,
          browser: {
            enabled: true,
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
          testTimeout: 240_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
