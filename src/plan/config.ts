import type { Precision } from './plan.js';

/** What transformers calls each precision. */
const TORCH_NAMES: Readonly<Record<Exclude<Precision, 'keep'>, string>> = {
  fp32: 'float32',
  fp16: 'float16',
  bf16: 'bfloat16',
};

/** A dtype field of config.json with its value, at any depth: a composed model has one per part. */
const DTYPE_FIELD = /("(?:torch_)?dtype"\s*:\s*)(?:"[^"\\]*"|null)/g;

/**
 * The text of config.json with its dtype fields set to the precision of the output; one is added where there is none.
 * The rest of the text stays as it is to the byte, since a number that is parsed and written again may change.
 * Undefined where nothing changes: no single precision, or text that is no JSON object.
 */
export function withDtype(text: string, precision: Precision): string | undefined {
  if (precision === 'keep' || !isJsonObject(text)) return undefined;
  const name = JSON.stringify(TORCH_NAMES[precision]);
  const edited =
    text.search(DTYPE_FIELD) >= 0
      ? text.replaceAll(DTYPE_FIELD, (_, key: string) => `${key}${name}`)
      : text.replace(/\{(\s*)(\}?)/, (_, space: string, end: string) => addField(space, end, name));
  return edited === text ? undefined : edited;
}

/** `torch_dtype` is the name that every version of transformers reads. */
function addField(space: string, end: string, name: string): string {
  const field = `"torch_dtype": ${name}`;
  return end === '' ? `{${space}${field},${space || ' '}` : `{${field}}`;
}

function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
