/** A parameter: its name, its shape, and where it starts in the sequence of all values. */
export interface Parameter {
  readonly name: string;
  readonly shape: readonly number[];
  readonly elements: number;
  readonly first: number;
}

/** Vocabulary of the models that have at least `LARGE_MODEL` elements, and of those below. */
const VOCABULARY = { large: 32003, small: 1009 };
const LARGE_MODEL = 1e8;

/**
 * The parameters of a Llama-like model of at most about `elements` elements. All dimensions are odd, so that no parameter
 * is a multiple of the number of ranks, and every partition ends in padding.
 */
export function llamaParameters(elements: number): Parameter[] {
  const hidden = Math.max(1, Math.round(Math.sqrt(elements / 12 / 24) / 64)) * 64 + 1;
  const inner = Math.floor(hidden * 2.6875) | 1;
  const vocabulary = elements >= LARGE_MODEL ? VOCABULARY.large : VOCABULARY.small;
  const layer: readonly (readonly [name: string, shape: readonly number[]])[] = [
    ...['q_proj', 'k_proj', 'v_proj', 'o_proj'].map((name) => [`self_attn.${name}`, [hidden, hidden]] as const),
    ['mlp.gate_proj', [inner, hidden]],
    ['mlp.up_proj', [inner, hidden]],
    ['mlp.down_proj', [hidden, inner]],
    ['input_layernorm', [hidden]],
    ['post_attention_layernorm', [hidden]],
  ];
  const perLayer = layer.reduce((sum, [, shape]) => sum + product(shape), 0);
  const layers = Math.max(1, Math.floor((elements - 2 * vocabulary * hidden) / perLayer));
  const named: readonly (readonly [name: string, shape: readonly number[]])[] = [
    ['model.embed_tokens', [vocabulary, hidden]],
    ...Array.from({ length: layers }, (_, i) =>
      layer.map(([name, shape]) => [`model.layers.${i}.${name}`, shape] as const),
    ).flat(),
    ['model.norm', [hidden]],
    ['lm_head', [vocabulary, hidden]],
  ];
  let first = 0;
  return named.map(([name, shape]) => {
    const parameter = { name: `${name}.weight`, shape, elements: product(shape), first };
    first += parameter.elements;
    return parameter;
  });
}

function product(shape: readonly number[]): number {
  return shape.reduce((sum, size) => sum * size, 1);
}
