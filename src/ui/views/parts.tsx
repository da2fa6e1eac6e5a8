/**
 * Small parts that several stages share.
 *
 * @module
 */

import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { CheckReport, Notice, SkippedTensor } from '../../index.js';
import type { FileView } from '../../worker/protocol.js';
import { formatBytes, plural } from '../format.js';

/** The heading of a stage. It takes the focus when the stage appears, so that a screen reader starts there. */
export function StageHeading({ children }: { readonly children: ComponentChildren }): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => heading.current?.focus(), []);
  return (
    <h1 ref={heading} tabIndex={-1}>
      {children}
    </h1>
  );
}

/** A message in a frame. Problems are announced at once. */
export function NoticeBox(props: {
  readonly tone: 'problem' | 'warning' | 'success' | 'plain';
  readonly label?: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <div class={`notice ${props.tone}`} role={props.tone === 'problem' ? 'alert' : undefined}>
      {props.label && <strong>{props.label} </strong>}
      {props.children}
    </div>
  );
}

/** What the user should know. */
export function Warnings({ warnings }: { readonly warnings: readonly Notice[] }): JSX.Element {
  return (
    <>
      {warnings.map(({ code, message, tensors = [] }, i) => (
        // Two files may give the same warning.
        <NoticeBox key={`${i} ${code}`} tone="warning" label="Note.">
          <span data-testid="warning">{message}</span>
          {tensors.length > 0 && (
            <Fold summary={plural(tensors.length, 'tensor')}>
              <NameList lines={tensors.map((name) => [name, ''])} />
            </Fold>
          )}
        </NoticeBox>
      ))}
    </>
  );
}

/** A list of facts: terms with values, wide ones over two columns. Facts without a value are left out. */
export function Facts(props: {
  readonly facts: readonly (readonly [string, ComponentChildren | undefined, 'wide'?])[];
}): JSX.Element {
  return (
    <dl class="facts">
      {props.facts.map(
        ([term, value, width]) =>
          value !== undefined && (
            <div key={term} class={width}>
              <dt>{term}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

/** How many lines fit in a list before it scrolls. */
const LINES_IN_SIGHT = 7;

/** A list that scrolls must be reachable by keyboard. */
export function scrollable(lines: number): { tabIndex?: number } {
  return lines > LINES_IN_SIGHT ? { tabIndex: 0 } : {};
}

/** Files with their sizes. */
export function FileList(props: { readonly files: readonly FileView[]; readonly testId: string }): JSX.Element {
  return (
    <ul class="files" data-testid={props.testId} {...scrollable(props.files.length)}>
      {props.files.map(({ path, byteLength }) => (
        <li key={path}>
          <code>{path}</code>
          <span class="size">{formatBytes(byteLength)}</span>
        </li>
      ))}
    </ul>
  );
}

/** A fold that is shut at first. */
export function Fold(props: {
  readonly summary: string;
  readonly class?: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <details class={props.class}>
      <summary>{props.summary}</summary>
      {props.children}
    </details>
  );
}

/** How many lines of a long list the page shows. The saved report holds all. */
const MAX_LINES = 200;

/** Names with a text each, cut where the list is very long. */
export function NameList(props: { readonly lines: readonly (readonly [string, string])[] }): JSX.Element {
  const rest = props.lines.length - MAX_LINES;
  return (
    <ul class="names" {...scrollable(props.lines.length)}>
      {props.lines.slice(0, MAX_LINES).map(([name, text]) => (
        <li key={name}>
          <code>{name}</code> <span>{text}</span>
        </li>
      ))}
      {rest > 0 && <li>and {plural(rest, 'more line')}</li>}
    </ul>
  );
}

const CHECK_STATUS = { passed: 'Passed.', failed: 'Failed.', 'not-checkable': 'Not checkable.' } as const;

/** Checks with their outcome, each with its id to search for. */
export function CheckList({ checks }: { readonly checks: readonly CheckReport[] }): JSX.Element {
  return (
    <ul class="checks">
      {checks.map(({ id, status, detail }) => (
        <li key={id} class={status}>
          <strong>{CHECK_STATUS[status]}</strong> {detail} <span class="code">({id})</span>
        </li>
      ))}
    </ul>
  );
}

/** What is not written, each with its reason. */
export function SkippedFold({ skipped }: { readonly skipped: readonly SkippedTensor[] }): JSX.Element | null {
  if (skipped.length === 0) return null;
  return (
    <Fold summary={`${plural(skipped.length, 'tensor')} not written`}>
      <NameList lines={skipped.map(({ name, reason }) => [name, reason])} />
    </Fold>
  );
}

/** Names that share the bits of another. */
export function AliasesFold({ aliases }: { readonly aliases: Readonly<Record<string, string>> }): JSX.Element | null {
  const pairs = Object.entries(aliases);
  if (pairs.length === 0) return null;
  return (
    <Fold summary={`${plural(pairs.length, 'tied name')}`}>
      <NameList lines={pairs.map(([alias, owner]) => [alias, `shares the bits of ${owner}`])} />
    </Fold>
  );
}
