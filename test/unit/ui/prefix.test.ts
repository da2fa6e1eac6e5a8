import { describe, expect, it } from 'vitest';
import { previewPrefix } from '../../../src/ui/prefix.js';

const tensors = [{ name: 'head.bias' }, { name: 'module.a' }, { name: 'module.b' }];

describe('previewPrefix', () => {
  it('shows what becomes of the first name that has the prefix, and how many have it', () => {
    expect(previewPrefix(tensors, 'module.')).toEqual({ before: 'module.a', after: 'a', count: 2 });
  });

  it.each(['', 'model.'])('shows nothing for %j', (prefix) => {
    expect(previewPrefix(tensors, prefix)).toBeUndefined();
  });
});
