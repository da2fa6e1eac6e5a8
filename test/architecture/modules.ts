/**
 * What the modules of the project import and use, read from their syntax trees: comments and strings do not count.
 *
 * @module
 */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync } from 'vite';

/** The project's folder. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** One module. Paths are relative to the project, with `/`. */
export interface Module {
  readonly path: string;
  readonly lines: number;
  /** What it imports, also dynamically, as a type, or as the URL of a worker: paths of files, names of packages. */
  readonly imports: ReadonlySet<string>;
  /** Names that it uses without declaring them as a variable, parameter, function, class, type or import. */
  readonly globals: ReadonlySet<string>;
  readonly hasDefaultExport: boolean;
}

/** All modules below some folders of the project. */
export function readModules(...folders: string[]): Module[] {
  return folders
    .flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`),
    )
    .filter((path) => /\.(ts|tsx|mjs)$/.test(path))
    .sort()
    .map((path) => parseModule(path, readFileSync(join(ROOT, path), 'utf8')));
}

/** Reads one module from its text. */
export function parseModule(path: string, text: string): Module {
  const { program, module, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path} cannot be parsed: ${errors[0]?.message}`);
  const found: Found = { requests: new Set(), used: new Set(), declared: new Set() };
  visit(program, undefined, '', found);
  for (const { moduleRequest } of module.staticImports) found.requests.add(moduleRequest.value);
  for (const { entries } of module.staticExports) {
    for (const { moduleRequest } of entries) if (moduleRequest) found.requests.add(moduleRequest.value);
  }
  return {
    path,
    lines: text.split('\n').length - 1,
    imports: new Set([...found.requests].map((request) => resolveRequest(path, request))),
    globals: new Set([...found.used].filter((name) => !found.declared.has(name))),
    hasDefaultExport: module.staticExports.some(({ entries }) =>
      entries.some(({ exportName: { kind, name } }) => kind === 'Default' || name === 'default'),
    ),
  };
}

/** The modules that `roots` lead to, themselves included. */
export function reachable(modules: readonly Module[], roots: readonly string[]): Set<string> {
  const byPath = new Map(modules.map((module) => [module.path, module]));
  const found = new Set(roots);
  for (const path of found) for (const target of byPath.get(path)?.imports ?? []) found.add(target);
  return found;
}

/** What a page of the project loads. */
export function scriptsOf(page: string): string[] {
  const scripts = readFileSync(join(ROOT, page), 'utf8').matchAll(/<script[^>]*\ssrc="([^"]+)"/g);
  return [...scripts].map(([, source]) => normalize(join(dirname(page), source ?? '')));
}

interface Found {
  readonly requests: Set<string>;
  readonly used: Set<string>;
  readonly declared: Set<string>;
}

type Node = Readonly<Record<string, unknown>> & { readonly type: string };

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

/** Places of an identifier, as `node.field`, that name a member of something and not a thing of the scope. */
const MEMBERS = new Set([
  'MemberExpression.property',
  'Property.key',
  'PropertyDefinition.key',
  'MethodDefinition.key',
  'TSPropertySignature.key',
  'TSMethodSignature.key',
  'ImportSpecifier.imported',
  'ExportSpecifier.exported',
  'TSImportType.qualifier',
  'TSQualifiedName.right',
  'MetaProperty.property',
]);

/** Places that declare a name. */
const DECLARATIONS = new Set([
  'VariableDeclarator.id',
  'FunctionDeclaration.id',
  'FunctionDeclaration.params',
  'FunctionExpression.params',
  'ArrowFunctionExpression.params',
  'ClassDeclaration.id',
  'TSTypeAliasDeclaration.id',
  'TSInterfaceDeclaration.id',
  'TSTypeParameter.name',
  'ImportSpecifier.local',
  'ImportDefaultSpecifier.local',
  'ImportNamespaceSpecifier.local',
  'ArrayPattern.elements',
  'CatchClause.param',
  'RestElement.argument',
]);

function visit(value: unknown, parent: Node | undefined, field: string, found: Found): void {
  if (Array.isArray(value)) {
    for (const item of value) visit(item, parent, field, found);
    return;
  }
  if (!isNode(value)) return;
  noteRequest(value, found);
  if (value.type === 'Identifier' && parent) noteName(String(value['name']), parent, field, found);
  const inner = value.type === 'ObjectPattern' ? { ...value, properties: [] } : value;
  for (const [name, child] of Object.entries(inner)) visit(child, value, name, found);
  if (value.type === 'ObjectPattern') visitObjectPattern(value, found);
}

/** In `{ key: local = otherwise }` the local name is declared; in an object literal of that form it would be used. */
function visitObjectPattern(pattern: Node, found: Found): void {
  for (const property of Array.isArray(pattern['properties']) ? pattern['properties'] : []) {
    const target = isNode(property) && property.type === 'Property' ? property['value'] : property;
    const local = isNode(target) && target.type === 'AssignmentPattern' ? target['left'] : target;
    if (isNode(local) && local.type === 'Identifier') found.declared.add(String(local['name']));
    visit(target, pattern, 'pattern', found);
  }
}

function noteName(name: string, parent: Node, field: string, found: Found): void {
  const place = `${parent.type}.${field}`;
  if (DECLARATIONS.has(place)) found.declared.add(name);
  else if (!MEMBERS.has(place) || parent['computed'] === true) found.used.add(name);
  else if (place === 'MemberExpression.property' && isNamed(parent['object'], 'globalThis', 'self'))
    found.used.add(name);
}

/** `import('x')`, `import('x').Type` and `new URL('x', import.meta.url)`. */
function noteRequest(node: Node, found: Found): void {
  if (node.type === 'ImportExpression' || node.type === 'TSImportType') addText(node['source'], found);
  if (node.type !== 'NewExpression' || !isNamed(node['callee'], 'URL')) return;
  const [address, base] = Array.isArray(node['arguments']) ? node['arguments'] : [];
  if (isNode(base) && isNode(base['object']) && base['object'].type === 'MetaProperty') addText(address, found);
}

function addText(node: unknown, found: Found): void {
  if (isNode(node) && node.type === 'Literal' && typeof node['value'] === 'string') found.requests.add(node['value']);
}

function isNamed(node: unknown, ...names: string[]): boolean {
  return isNode(node) && node.type === 'Identifier' && names.includes(String(node['name']));
}

/** The file that a request means, with the ending that it has on disk; a package stays as it is. */
function resolveRequest(from: string, request: string): string {
  if (!request.startsWith('.')) return request;
  const path = normalize(join(dirname(from), request.replace(/\?.*$/, '')));
  const sources = [path.replace(/\.js$/, '.ts'), path.replace(/\.js$/, '.tsx')];
  return sources.find((source) => existsSync(join(ROOT, source))) ?? path;
}
