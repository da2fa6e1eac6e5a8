import { memoryOutput, memorySource, memoryTree } from '../../src/io/memory.js';
import { sinkContract } from './sink.js';
import { sourceContract } from './source.js';
import { treeContract } from './tree.js';

sourceContract('Memory', async (bytes) => memorySource('dir/data.bin', bytes));
treeContract('Memory', async (files) => ({ ...memoryTree(files), name: 'root' }));
sinkContract('Memory', async () => ({ ...memoryOutput(), name: 'root' }));
