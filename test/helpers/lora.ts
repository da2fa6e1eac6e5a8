import { bytesOf, type DType } from '../../src/base/dtype.js';
import { numelOf } from '../../src/base/shape.js';
import type { Companion, Inventory, TensorEntry } from '../../src/checkpoints/inventory.js';
import { inventoryOf } from './inventory.js';

/** Name, shape, and what is unusual of a tensor. */
export type TensorSpec = readonly [
  name: string,
  shape: readonly number[],
  more?: { readonly dtype?: DType; readonly origin?: TensorEntry['origin'] },
];

/** Tensors that lie one after another in a single source: adapters as fp32 masters, the rest as frozen bf16. */
export function tensorsOf(specs: readonly TensorSpec[]): TensorEntry[] {
  let offset = 0;
  return specs.map(([name, shape, more = {}]) => {
    const isTrained = /lora_|modules_to_save|token_adapter/.test(name);
    const { dtype = isTrained ? 'F32' : 'BF16', origin = isTrained ? 'master' : 'frozen' } = more;
    const length = numelOf(shape) * bytesOf(dtype);
    const pieces = length === 0 ? [] : [{ source: 0, offset, length, at: 0 }];
    offset += length;
    return { name, shape, origin, stored: { dtype, pieces } };
  });
}

/** A plain LoRA configuration. */
export const LORA_CONFIG = { peft_type: 'LORA', r: 2, lora_alpha: 6, bias: 'none' };

/** An inventory of a LoRA run with an adapter_config.json; without one for null. */
export function loraInventory(
  specs: readonly TensorSpec[],
  config: object | null = LORA_CONFIG,
  more: Partial<Inventory> = {},
): Inventory {
  const sources = [
    { path: 'global_step1/model.pt', size: 1e9, modified: 0 },
    { path: 'adapter_config.json', size: 100, modified: 0 },
    { path: 'config.json', size: 10, modified: 0 },
  ];
  const companions: Companion[] = [
    { source: 2, name: 'config.json', text: '{}' },
    { source: 1, name: 'adapter_config.json', text: JSON.stringify(config), adapter: 'default' },
  ];
  return inventoryOf(tensorsOf(specs), {
    sources,
    companions: config === null ? companions.slice(0, 1) : companions,
    ...more,
  });
}

/** A linear layer of 4 outputs and 3 inputs with an adapter of rank 2 on it. */
export function linear(layer: string, adapter = 'default'): TensorSpec[] {
  return [
    [`${layer}.base_layer.weight`, [4, 3]],
    [`${layer}.lora_A.${adapter}.weight`, [2, 3]],
    [`${layer}.lora_B.${adapter}.weight`, [4, 2]],
  ];
}
