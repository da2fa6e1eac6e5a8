/**
 * Changes config.json where the weights ask for it. Its text is edited and stays as it is elsewhere to the byte, since a
 * number that is parsed and written again may change.
 *
 * @module
 */

import type { Precision } from './plan.js';

/** What transformers calls each precision. */
const TORCH_NAMES: Readonly<Record<Exclude<Precision, 'keep'>, string>> = {
  fp32: 'float32',
  fp16: 'float16',
  bf16: 'bfloat16',
};

/** A dtype field with its value, at any depth: a composed model has one per part. */
const DTYPE_FIELD = /("(?:torch_)?dtype"\s*:\s*)(?:"[^"\\]*"|null)/g;

/** Whether embedding and head are one weight, at any depth. */
const TIE_FIELD = /("tie_word_embeddings"\s*:\s*)(?:true|false|null)/g;

/**
 * The text of config.json with its dtype fields set to the precision of the output, and with `tie_word_embeddings` false
 * where weights are not tied any more. A field that is not there is added. Text that is no JSON object is given back.
 */
export function editedConfig(text: string, precision: Precision, unties: boolean): string {
  const fields = fieldsOf(text);
  if (!fields) return text;
  const isTyped = text.search(DTYPE_FIELD) >= 0;
  // `torch_dtype` is the name that every version of transformers reads.
  const typed =
    precision === 'keep' ? text : set(text, DTYPE_FIELD, 'torch_dtype', `"${TORCH_NAMES[precision]}"`, isTyped);
  return unties ? set(typed, TIE_FIELD, 'tie_word_embeddings', 'false', 'tie_word_embeddings' in fields) : typed;
}

/**
 * True where a configuration may be told that embedding and head are not tied. T5 and its kin also scale by what it says, so
 * that there it would change the model.
 */
export function mayUntie(text: string | undefined): boolean {
  const fields = fieldsOf(text ?? '');
  return fields !== undefined && !('is_encoder_decoder' in fields && fields.is_encoder_decoder === true);
}

/** True where a configuration says that embedding and head are two weights. */
export function saysUntied(text: string | undefined): boolean {
  const fields = fieldsOf(text ?? '');
  return fields !== undefined && 'tie_word_embeddings' in fields && fields.tie_word_embeddings === false;
}

/** Sets a field to a value where it is, and adds it at the start where it is not. */
function set(text: string, field: RegExp, name: string, value: string, isThere: boolean): string {
  const edited = text.replaceAll(field, (_, key: string) => `${key}${value}`);
  if (isThere) return edited;
  return edited.replace(/\{(\s*)(\}?)/, (_, space: string, end: string) =>
    end === '' ? `{${space}"${name}": ${value},${space || ' '}` : `{"${name}": ${value}}`,
  );
}

function fieldsOf(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
