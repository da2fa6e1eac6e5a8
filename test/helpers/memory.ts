import { readdirSync, readFileSync } from 'node:fs';

/**
 * Memory of a process and all its descendants in bytes: the sum of their proportional set sizes, in which a page that
 * several processes share counts once. Linux only. Processes that end meanwhile count nothing.
 */
export function readPss(rootPid: number): number {
  return [...descendants(rootPid)].reduce((sum, pid) => sum + pssOf(pid), 0);
}

function descendants(rootPid: number): Set<number> {
  const children = new Map<number, number[]>();
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    const parent = Number.isInteger(pid) ? parentOf(pid) : undefined;
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), pid]);
  }
  const found = new Set([rootPid]);
  for (const pid of found) for (const child of children.get(pid) ?? []) found.add(child);
  return found;
}

/** The command name stands in brackets and may hold spaces and brackets: the fields start after the last one. */
function parentOf(pid: number): number | undefined {
  const stat = readOrEmpty(`/proc/${pid}/stat`);
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[1] === undefined ? undefined : Number(fields[1]);
}

function pssOf(pid: number): number {
  const kib = /^Pss:\s+(\d+) kB$/m.exec(readOrEmpty(`/proc/${pid}/smaps_rollup`))?.[1];
  return Number(kib ?? 0) * 1024;
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
