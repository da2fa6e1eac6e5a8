/** What stripping a prefix makes of the names. */
export interface PrefixPreview {
  /** The first name that has the prefix, and what becomes of it. */
  readonly before: string;
  readonly after: string;
  /** Names that have it. */
  readonly count: number;
}

/** A look at what a prefix would do; undefined where no name has it. */
export function previewPrefix(
  tensors: readonly { readonly name: string }[],
  prefix: string,
): PrefixPreview | undefined {
  if (prefix === '') return undefined;
  const having = tensors.filter(({ name }) => name.startsWith(prefix));
  const before = having[0]?.name;
  return before === undefined ? undefined : { before, after: before.slice(prefix.length), count: having.length };
}
