import { UnshardError } from '../base/errors.js';

/**
 * The segments of a path relative to a folder; the empty path has none. Paths come from checkpoints too, so one that
 * could leave the folder or that means different things on different systems is refused.
 *
 * @throws UnshardError `bad-path` of the given kind for an absolute path, an empty, `.` or `..` segment, a backslash
 * or a NUL.
 */
export function pathSegments(path: string, kind: 'source' | 'sink'): string[] {
  if (path === '') return [];
  const segments = path.split('/');
  if (segments.some((segment) => /^\.{0,2}$|[\\\0]/.test(segment))) {
    throw new UnshardError({
      kind,
      code: 'bad-path',
      message: `The path ${JSON.stringify(path)} is not a plain path inside a folder.`,
      advice: 'Paths are relative, with /, and have no "." or ".." in them.',
      facts: { file: path },
    });
  }
  return segments;
}

/** A path of at least one segment, as the folders that lead to it and its own name. */
export function splitFilePath(path: string, kind: 'source' | 'sink'): { folders: string[]; name: string } {
  const folders = pathSegments(path, kind);
  const name = folders.pop();
  if (name === undefined) {
    throw new UnshardError({
      kind,
      code: 'bad-path',
      message: 'The empty path names the folder itself, not a file in it.',
      advice: 'Name a file.',
      facts: { file: path },
    });
  }
  return { folders, name };
}

/** The path of a file itself, once it is known to be a plain one; for adapters that look paths up as a whole. */
export function plainFilePath(path: string, kind: 'source' | 'sink'): string {
  splitFilePath(path, kind);
  return path;
}
