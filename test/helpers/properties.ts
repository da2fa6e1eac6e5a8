/**
 * Setup of property tests: the same random inputs in every run, so that a commit is never refused for what it did not
 * change. `npm run exhaustive` draws new ones; `PROPERTY_SEED` gives another number, or `random`.
 *
 * @module
 */

import fc from 'fast-check';

/** Any number serves. */
const SEED = 20_261_130;

const { PROPERTY_SEED: asked = String(SEED) } = process.env;

if (asked !== 'random') fc.configureGlobal({ seed: Number(asked) });
