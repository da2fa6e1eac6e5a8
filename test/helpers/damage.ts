import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { inspect, openFolder } from '../../src/node.js';

/** Changes one byte of the masters that a file of the checkpoint holds. */
export async function damageMasters(folder: string, path: string): Promise<void> {
  const { sources, tensors } = await inspect(await openFolder(folder));
  const pieces = tensors.flatMap(({ stored }) => stored.pieces.flatMap((piece) => ('source' in piece ? [piece] : [])));
  const piece = pieces.find(({ source }) => sources[source]?.path === path);
  if (!piece) throw new Error(`${path} holds no masters`);
  const file = await open(join(folder, path), 'r+');
  const byte = new Uint8Array(1);
  await file.read(byte, 0, 1, piece.offset + 5);
  await file.write(
    byte.map((value) => value ^ 1),
    0,
    1,
    piece.offset + 5,
  );
  await file.close();
}
