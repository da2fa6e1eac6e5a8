import { test } from 'vitest';
import { inspect } from '../../../src/checkpoints/inspect.js';
import { memoryTree } from '../../../src/io/memory.js';
import { writeMoe } from '../../helpers/deepspeed/moe.js';
test('x', async () => {
  const w = writeMoe({"version":"0.7.4","stage":1,"modelDtype":"F32","ranks":12,"dense":[{name:'dense.0',shape:[1]}],"layers":[{"prefix":"layers.0.moe","experts":3,"ep":3,"params":[{"name":"w0","shape":[2]}],"frozen":[]},{"prefix":"layers.1.moe","experts":6,"ep":3,"params":[{"name":"w0","shape":[2]}],"frozen":[]},{"prefix":"layers.2.moe","experts":1,"ep":1,"params":[{"name":"w0","shape":[]}],"frozen":[]}],"first":"data","groupSize":1000});
  const inv = await inspect(memoryTree(w.files));
  console.log(JSON.stringify(inv.problems, null, 1));
});
