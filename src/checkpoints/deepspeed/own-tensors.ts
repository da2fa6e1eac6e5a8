import { ownTensor, type TorchFile } from '../../formats/torch/read.js';
import type { TorchTensor } from '../../formats/torch/tensor.js';

/**
 * The tensors of a file whose object another file has as well. Each is made when it is asked for: of the tens of thousands
 * that each of a thousand ranks may have, few are.
 */
export class OwnTensors implements ReadonlyMap<string, TorchTensor> {
  readonly #file: TorchFile;
  readonly #tensors: ReadonlyMap<string, TorchTensor>;

  /** `tensors` are those of the object. */
  constructor(file: TorchFile, tensors: ReadonlyMap<string, TorchTensor>) {
    this.#file = file;
    this.#tensors = tensors;
  }

  get size(): number {
    return this.#tensors.size;
  }

  has(name: string): boolean {
    return this.#tensors.has(name);
  }

  get(name: string): TorchTensor | undefined {
    const tensor = this.#tensors.get(name);
    return tensor && ownTensor(this.#file, tensor);
  }

  keys(): MapIterator<string> {
    return this.#tensors.keys();
  }

  *values(): MapIterator<TorchTensor> {
    for (const tensor of this.#tensors.values()) yield ownTensor(this.#file, tensor);
  }

  *entries(): MapIterator<[string, TorchTensor]> {
    for (const [name, tensor] of this.#tensors) yield [name, ownTensor(this.#file, tensor)];
  }

  [Symbol.iterator](): MapIterator<[string, TorchTensor]> {
    return this.entries();
  }

  forEach(visit: (tensor: TorchTensor, name: string, map: ReadonlyMap<string, TorchTensor>) => void): void {
    for (const [name, tensor] of this) visit(tensor, name, this);
  }
}
