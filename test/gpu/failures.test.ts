import { describe, expect, test } from 'vitest';
import { UnshardError } from '../../src/base/errors.js';
import { randomBytes, wholeJob } from '../helpers/float-vectors.js';
import { expectRight, openTestDevice } from '../helpers/gpu.js';

const job = () => wholeJob('F32', 'F16', randomBytes(40_004));

async function failureOf(work: Promise<unknown>): Promise<UnshardError['detail']> {
  try {
    await work;
  } catch (error) {
    if (error instanceof UnshardError) return error.detail;
    throw error;
  }
  return expect.fail('no error');
}

describe('a lost device', () => {
  test('fails the jobs that are under way', async () => {
    const { device, backend } = await openTestDevice();
    await expectRight(backend, job());
    const jobs = [job(), job(), job()].map((each) => failureOf(backend.convert(each)));
    device.destroy();
    for (const failure of await Promise.all(jobs)) {
      expect(failure).toMatchObject({ kind: 'gpu', code: 'gpu-lost', facts: { adapter: backend.description } });
    }
  });

  test('fails every later job, also of a pipeline that was not made yet', async () => {
    const { device, backend } = await openTestDevice();
    await expectRight(backend, job());
    device.destroy();
    await device.lost;
    expect(await failureOf(backend.convert(job()))).toMatchObject({ kind: 'gpu', code: 'gpu-lost' });
    expect(await failureOf(backend.convert(wholeJob('F16', 'F32', randomBytes(8))))).toMatchObject({
      code: 'gpu-lost',
    });
  });

  test('is what a closed backend has', async () => {
    const { backend } = await openTestDevice();
    await backend.close();
    await backend.close();
    expect(await failureOf(backend.convert(job()))).toMatchObject({ kind: 'gpu', code: 'gpu-lost' });
  });
});

describe('an error on the device is never a result of zeros', () => {
  test('a buffer that cannot be made fails the job, and the next one is right', async () => {
    const { device, backend } = await openTestDevice();
    const createBuffer = device.createBuffer.bind(device);
    device.createBuffer = (descriptor) => createBuffer({ ...descriptor, size: device.limits.maxBufferSize * 4 });
    const failed = job();
    expect(await failureOf(backend.convert(failed))).toMatchObject({ kind: 'gpu', code: 'gpu-failed' });
    device.createBuffer = createBuffer;
    await expectRight(backend, job());
    await backend.close();
  });

  test('a dispatch that did not happen is noticed, and the next one is right', async () => {
    const { device, backend } = await openTestDevice();
    const submit = device.queue.submit.bind(device.queue);
    device.queue.submit = () => undefined;
    expect(await failureOf(backend.convert(job()))).toMatchObject({
      kind: 'gpu',
      code: 'gpu-untrusted',
      facts: { expectedJob: 1, foundJob: 0, expectedElements: 10_001, foundElements: 0 },
    });
    device.queue.submit = submit;
    await expectRight(backend, job());
    await backend.close();
  });

  test('the result of an earlier job is not taken for that of a later one', async () => {
    const { device, backend } = await openTestDevice();
    // The ring has two slots and takes the last freed one again.
    await backend.convert(job());
    const submit = device.queue.submit.bind(device.queue);
    device.queue.submit = () => undefined;
    expect(await failureOf(backend.convert(job()))).toMatchObject({
      code: 'gpu-untrusted',
      facts: { expectedJob: 2, foundJob: 1, expectedElements: 10_001, foundElements: 10_001 },
    });
    device.queue.submit = submit;
    await backend.close();
  });
});
