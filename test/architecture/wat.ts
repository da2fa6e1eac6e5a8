/**
 * Assembles WebAssembly from its text, with macros: where `(NAME)` stands, the forms of `(macro NAME forms…)` are put.
 * A kernel is one loop, and the text format alone has no way to write a step of it once for several kernels.
 *
 * @module
 */

import wabt from 'wabt';

// SIMD of a fixed width gives the same bits everywhere; relaxed SIMD does not, and threads need headers of the host.
const FEATURES = { simd: true, relaxed_simd: false, threads: false };

/** The bytes of a module. */
export async function assemble(path: string, text: string): Promise<Uint8Array> {
  const { parseWat } = await wabt();
  const module = parseWat(path, expandMacros(text), FEATURES);
  module.validate();
  return module.toBinary({}).buffer;
}

/** Puts bodies in the place of macros. Names are capitals, digits and hyphens; macros may use those before them. */
export function expandMacros(text: string): string {
  const macros = new Map<string, string>();
  const expand = (part: string): string =>
    part.replace(/\(([A-Z][A-Z0-9-]*)\)/g, (_, name: string) => {
      const body = macros.get(name);
      if (body === undefined) throw new Error(`there is no macro ${name} up to here`);
      return body;
    });
  let rest = text.replace(/;;.*$/gm, '');
  let expanded = '';
  for (let match = DEFINITION.exec(rest); match; match = DEFINITION.exec(rest)) {
    const [opening, name = ''] = match;
    const end = closingOf(rest, match.index);
    expanded += expand(rest.slice(0, match.index));
    if (macros.has(name)) throw new Error(`there are two macros ${name}`);
    macros.set(name, expand(rest.slice(match.index + opening.length, end)));
    rest = rest.slice(end + 1);
  }
  return expanded + expand(rest);
}

const DEFINITION = /\(macro\s+([A-Z][A-Z0-9-]*)/;

/** Where the parenthesis is closed that is opened at `start`. */
function closingOf(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    if (text[at] === '(') depth++;
    else if (text[at] === ')' && --depth === 0) return at;
  }
  throw new Error('a macro is not closed');
}
