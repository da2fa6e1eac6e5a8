import type { ErrorDetail } from '../node.js';

/** The options that do what the advice of an error says, by its code. The library and the page say the same in words alone. */
const OPTIONS: Readonly<Record<string, string>> = {
  'output-exists': '--overwrite replaces what is there.',
  'missing-optim-rank': '--also FOLDER adds the files of another folder, --partial does without them.',
  'missing-model-rank': '--also FOLDER adds the files of another folder, --partial does without them.',
  'adapter-config-missing': '--lora-alpha NUMBER says it.',
  overflow: '--dtype and --dtype-for change the dtype, --overflow inf and --overflow clamp the value.',
};

/** What went wrong and what to do about it, in the words of the command line. */
export function errorText({ code, message, advice, facts }: ErrorDetail): string {
  const { option } = facts;
  // Such a message begins with the name of the option.
  const told = typeof option === 'string' ? flagOf(option) + message.slice(option.length) : message;
  return [told, advice, OPTIONS[code] ?? ''].join(' ').trim();
}

/** `maxShardSize` as `--max-shard-size`, `lora.r` as `--lora-r`. */
function flagOf(option: string): string {
  const words = option.replace('.', '-').replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return `--${words}`;
}
