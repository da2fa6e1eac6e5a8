/**
 * Unshard for Node: the library, and folders on disk.
 *
 * @example
 * const input = await openFolder('checkpoint-1000');
 * await run(plan(await inspect(input)), { input, output: folderOutput('weights') });
 *
 * @module
 */

export * from './index.js';
export { folderOutput, openFolder } from './io/node.js';
