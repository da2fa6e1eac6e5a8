/** What a terminal may obey instead of showing it: control characters, line breaks, and changes of the direction of text. */
const OBEYED = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/**
 * A line for a terminal. Names come from files of strangers, and could move the cursor, or hide what a line says: such
 * characters are shown as JSON writes them.
 */
export function printable(line: string): string {
  return line.replaceAll(OBEYED, (char) => `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`);
}

/** Lines for a terminal, each ended by a line break. */
export function printed(lines: readonly string[]): string {
  return `${lines.map(printable).join('\n')}\n`;
}
