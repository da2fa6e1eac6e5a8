/** A parameter: its name, its shape, and where it starts in the sequence of all values. */
export interface Parameter {
  readonly name: string;
  readonly shape: readonly number[];
  readonly elements: number;
  readonly first: number;
}

/** A name and a shape. */
type Named = readonly (readonly [name: string, shape: readonly number[]])[];

/** Vocabulary of the models that have at least `LARGE_MODEL` elements, and of those below. */
const VOCABULARY = { large: 32003, small: 1009 };
const LARGE_MODEL = 1e8;

/**
 * The parameters of a Llama-like model of at most about `elements` elements. All dimensions are odd, so that no parameter
 * is a multiple of the number of ranks, and every partition ends in padding.
 */
export function llamaParameters(elements: number): Parameter[] {
  return parametersOf(llamaShapes(elements, 1));
}

/** Nearly the same model with all dimensions even, as most models have them. */
export function evenParameters(elements: number): Parameter[] {
  return parametersOf(llamaShapes(elements, 0));
}

/** Tensors of 4 KB in fp32. */
export function smallParameters(count: number): Parameter[] {
  return parametersOf(Array.from({ length: count }, (_, i) => [`layers.${i}.weight`, [1024]]));
}

/** One matrix of about `elements` elements. */
export function oneParameter(elements: number): Parameter[] {
  const columns = 16384;
  return parametersOf([['embed.weight', [Math.ceil(elements / columns), columns]]]);
}

/** Matrices of at most about `elements` elements together, whose columns can be shared out over 8 ranks and more. */
export function wideParameters(elements: number): Parameter[] {
  const shape = [2048, 4096];
  const count = Math.max(1, Math.floor(elements / product(shape)));
  return parametersOf(Array.from({ length: count }, (_, i) => [`layers.${i}.down_proj.weight`, shape]));
}

/**
 * About `elements` elements in few matrices of 2 GB each in fp32, and vectors of 40 bytes between them. At 3 G there are
 * about as many tensors as a model of that size has.
 */
export function giantAndTinyParameters(elements: number): Parameter[] {
  const giant = [32768, 16384];
  const giants = Math.max(1, Math.round(elements / product(giant)));
  const tiny = 10;
  const between = 50;
  return parametersOf(
    Array.from(
      { length: giants },
      (_, i): Named => [
        [`layers.${i}.weight`, giant],
        ...Array.from({ length: between }, (_, j) => [`layers.${i}.scale.${j}`, [tiny]] as const),
      ],
    ).flat(),
  );
}

function llamaShapes(elements: number, odd: 0 | 1): Named {
  const hidden = Math.max(1, Math.round(Math.sqrt(elements / 12 / 24) / 64)) * 64 + odd;
  const inner = odd ? Math.floor(hidden * 2.6875) | 1 : Math.floor((hidden * 2.6875) / 2) * 2;
  const vocabulary = (elements >= LARGE_MODEL ? VOCABULARY.large : VOCABULARY.small) - 1 + odd;
  const layer: Named = [
    ...['q_proj', 'k_proj', 'v_proj', 'o_proj'].map((name) => [`self_attn.${name}`, [hidden, hidden]] as const),
    ['mlp.gate_proj', [inner, hidden]],
    ['mlp.up_proj', [inner, hidden]],
    ['mlp.down_proj', [hidden, inner]],
    ['input_layernorm', [hidden]],
    ['post_attention_layernorm', [hidden]],
  ];
  const perLayer = layer.reduce((sum, [, shape]) => sum + product(shape), 0);
  const layers = Math.max(1, Math.floor((elements - 2 * vocabulary * hidden) / perLayer));
  const named: Named = [
    ['model.embed_tokens', [vocabulary, hidden]],
    ...Array.from({ length: layers }, (_, i) =>
      layer.map(([name, shape]) => [`model.layers.${i}.${name}`, shape] as const),
    ).flat(),
    ['model.norm', [hidden]],
    ['lm_head', [vocabulary, hidden]],
  ];
  return named.map(([name, shape]) => [`${name}.weight`, shape]);
}

function parametersOf(named: Named): Parameter[] {
  let first = 0;
  return named.map(([name, shape]) => {
    const parameter = { name, shape, elements: product(shape), first };
    first += parameter.elements;
    return parameter;
  });
}

function product(shape: readonly number[]): number {
  return shape.reduce((sum, size) => sum * size, 1);
}
