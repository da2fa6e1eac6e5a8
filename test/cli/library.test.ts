import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { runNode } from '../helpers/cli.js';

/** Within it the package finds itself under its name, as a program finds it that depends on it. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

test('under Node both entry points are one: each knows the errors of the other', async () => {
  const script = `
    import * as everywhere from 'unshard';
    import * as node from 'unshard/node';
    const error = await node.openFolder('/nowhere').catch((error) => error);
    const missing = Object.keys(everywhere).filter((name) => everywhere[name] !== node[name]);
    console.log(JSON.stringify({ code: error.detail.code, isKnown: everywhere.isUnshardError(error), missing }));
  `;
  const { stdout } = await runNode(['--input-type=module', '-e', script], ROOT);
  expect(JSON.parse(stdout)).toEqual({ code: 'folder-missing', isKnown: true, missing: [] });
});
