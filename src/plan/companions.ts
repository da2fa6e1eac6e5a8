import type { Companion, Inventory } from '../checkpoints/inventory.js';
import { adapterCompanion } from './adapter-config.js';
import { adaptersOf } from './lora.js';
import type { ResolvedOptions } from './plan.js';

/** Files that describe the whole model, which an adapter's folder does not hold. */
const OF_MODEL: ReadonlySet<string> = new Set(['config.json', 'generation_config.json']);

/**
 * The companions that belong beside what is written. The configuration of an adapter lies beside that adapter alone:
 * transformers would look for an adapter in any folder that holds one.
 */
export function companionsOf(inventory: Inventory, { output, adapterName }: ResolvedOptions): Companion[] {
  const others = inventory.companions.filter(({ adapter }) => adapter === undefined);
  if (output !== 'adapter') return others;
  const config = adapterCompanion(inventory, adapterName ?? adaptersOf(inventory)[0] ?? '');
  return [...(config ? [config] : []), ...others.filter(({ name }) => !OF_MODEL.has(name))];
}
