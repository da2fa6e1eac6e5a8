import { playwright } from '@vitest/browser-playwright';
import { defineConfig } from 'vitest/config';
import { chromiumLaunch } from './test/helpers/chromium.js';
import { PATIENCE } from './vitest.config.js';

/** Every fp32 there is, against the hashes of torch, and property tests on new random inputs: minutes, so not a part of `npm test`. */
export default defineConfig({
  test: {
    slowTestThreshold: 10_000,
    projects: [
      {
        test: {
          ...PATIENCE,
          name: 'cpu',
          environment: 'node',
          include: ['test/exhaustive/*.test.ts'],
          testTimeout: 600_000,
        },
      },
      {
        test: {
          ...PATIENCE,
          name: 'properties',
          environment: 'node',
          include: ['test/{unit,hostile}/**/*.test.ts'],
          testTimeout: 600_000,
        },
      },
      {
        test: {
          ...PATIENCE,
          name: 'gpu',
          include: ['test/exhaustive/*.browser.ts'],
          testTimeout: 600_000,
          browser: {
            enabled: true,
            headless: true,
            screenshotFailures: false,
            provider: playwright({ launchOptions: chromiumLaunch() }),
            instances: [{ browser: 'chromium' }],
          },
        },
      },
    ],
  },
});
