import type { JSX } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import type { ConvertStats, Report as RunReport, TensorReport } from '../../index.js';
import type { FolderFile } from '../../worker/protocol.js';
import { formatBytes, formatCount, formatRate, formatSeconds, plural } from '../format.js';
import { dtypeLabel } from '../labels.js';
import type { ReportState, Send } from '../state.js';
import {
  AliasesFold,
  CheckList,
  Facts,
  FileList,
  NameList,
  SkippedFold,
  StageHeading,
  scrollable,
  Warnings,
} from './parts.js';

/** What was written, what was proven, and what the user should know. */
export function Report(props: {
  readonly state: ReportState;
  readonly send: Send;
  readonly letGo: (paths: readonly string[]) => void;
}): JSX.Element {
  const { state, send, letGo } = props;
  const { outcome, destination, downloads } = state;
  const { report } = outcome;
  const failed = report.checks.filter(({ status }) => status === 'failed').length;
  return (
    <>
      <section class="card">
        <StageHeading>{failed > 0 ? `Written, but ${plural(failed, 'check')} failed` : 'Done'}</StageHeading>
        <p class="lead">
          {plural(report.files.length, 'file')}, {formatBytes(report.bytesWritten)}, in {formatSeconds(report.seconds)}
          {destination.ref.kind === 'directory' && (
            <>
              , written to <strong>{destination.name}</strong>
            </>
          )}
          .
        </p>
        {downloads.length > 0 ? (
          <Downloads files={downloads} letGo={letGo} />
        ) : (
          <FileList files={report.files} testId="written-files" />
        )}
        <Facts
          facts={[
            ['Speed', formatRate(report.bytesWritten / Math.max(report.seconds, 0.001))],
            ['Read', formatBytes(report.bytesRead)],
            ['Tensors', formatCount(report.tensors.length)],
            ['Precision', precisions(report.tensors), 'wide'],
            ['Computed', computed(report.tensors), 'wide'],
            ['Converter', converterText(report.backend), 'wide'],
            [
              'Left to the CPU',
              report.backend.name === 'gpu' && report.backend.jobsOnCpu > 0
                ? plural(report.backend.jobsOnCpu, 'job')
                : undefined,
            ],
          ]}
        />
        <div class="actions">
          <SaveReport report={report} />
          <button type="button" onClick={() => send({ type: 'back' })}>
            Convert again
          </button>
          <button type="button" onClick={() => send({ type: 'restart' })}>
            Another folder
          </button>
        </div>
      </section>
      <section class="card" aria-labelledby="checks">
        <h2 id="checks">Checks</h2>
        <CheckList checks={report.checks} />
        <Warnings warnings={report.warnings} />
        <Digests files={report.files} />
        <ValuesFold tensors={report.tensors} />
        <AliasesFold aliases={report.aliases} />
        <SkippedFold skipped={report.skipped} />
      </section>
    </>
  );
}

/** The files that the browser was given to save, for as long as their copies are kept. */
function Downloads(props: {
  readonly files: readonly FolderFile[];
  readonly letGo: (paths: readonly string[]) => void;
}): JSX.Element {
  const { files } = props;
  const links = useMemo(
    () => files.map(({ path, file }) => ({ path, size: file.size, url: URL.createObjectURL(file) })),
    [files],
  );
  useEffect(
    () => () => {
      for (const { url } of links) URL.revokeObjectURL(url);
    },
    [links],
  );
  const bytes = links.reduce((sum, { size }) => sum + size, 0);
  return (
    <>
      <p>The browser saves these files among its downloads. Where it has not, save them here.</p>
      <ul class="files" data-testid="downloads" {...scrollable(links.length)}>
        {links.map(({ path, size, url }) => (
          <li key={path}>
            <a href={url} download={path.slice(path.lastIndexOf('/') + 1)}>
              Save <code>{path}</code>
            </a>
            <span class="size">{formatBytes(size)}</span>
          </li>
        ))}
      </ul>
      <div class="copies">
        <p class="hint">
          Keep this page open until they are saved. It keeps {formatBytes(bytes)} of copies until the next conversion.
        </p>
        <button type="button" onClick={() => props.letGo(links.map(({ path }) => path))}>
          All are saved: remove the copies
        </button>
      </div>
    </>
  );
}

/** The whole report: as a file to save, and in the document for programs that drive the page. */
function SaveReport({ report }: { readonly report: RunReport }): JSX.Element {
  const json = useMemo(() => JSON.stringify(report, undefined, 2), [report]);
  const url = useMemo(() => URL.createObjectURL(new Blob([json], { type: 'application/json' })), [json]);
  useEffect(() => () => URL.revokeObjectURL(url), [url]);
  return (
    <>
      <a class="button" href={url} download="unshard-report.json">
        Save report
      </a>
      <script type="application/json" id="report">
        {json}
      </script>
    </>
  );
}

/** `CPU: WebAssembly SIMD, 2 threads.` and why. */
function converterText({ name, description, threads, choice }: RunReport['backend']): string {
  const where = threads > 1 ? `${description}, ${plural(threads, 'thread')}` : description;
  return `${name === 'gpu' ? 'GPU' : 'CPU'}: ${where}. ${choice?.reason ?? ''}`;
}

/** `fp32 → bf16 (112), int64 (3)`: how many tensors went from which dtype to which. */
function precisions(tensors: readonly TensorReport[]): string {
  const counts = new Map<string, number>();
  for (const { from, to } of tensors) {
    const label = from === to ? dtypeLabel(from) : `${dtypeLabel(from)} → ${dtypeLabel(to)}`;
    counts.set(label, (counts.get(label) ?? 0) + 1);
  }
  return [...counts].map(([label, count]) => `${label} (${formatCount(count)})`).join(', ');
}

/** How many tensors are no conversion of stored ones; undefined where there are none. */
function computed(tensors: readonly TensorReport[]): string | undefined {
  const parts = (['lora', 'mean'] as const).flatMap((kind) => {
    const { length } = tensors.filter((tensor) => tensor.computed === kind);
    return length > 0 ? [`${plural(length, 'tensor')} ${COMPUTED[kind]}`] : [];
  });
  return parts.length > 0 ? `${parts.join(', ')}, in fp32 on the CPU` : undefined;
}

/** The SHA-256s of the files, where they were asked for. */
function Digests({ files }: Pick<RunReport, 'files'>): JSX.Element | null {
  const lines = files.flatMap(({ path, sha256 }): [string, string][] => (sha256 ? [[path, sha256]] : []));
  if (lines.length === 0) return null;
  return (
    <details open data-testid="sha256">
      <summary>SHA-256 of the files</summary>
      <NameList lines={lines} />
    </details>
  );
}

const COMPUTED = { lora: 'with the adapter merged in', mean: 'as the mean of copies' } as const;

/** The tensors with values that did not pass unchanged in kind. */
function ValuesFold({ tensors }: { readonly tensors: readonly TensorReport[] }): JSX.Element | null {
  const lines = tensors.flatMap(({ name, stats }): [string, string][] => {
    const text = stats ? valuesText(stats) : '';
    return text ? [[name, text]] : [];
  });
  if (lines.length === 0) return null;
  return (
    <details open>
      <summary>{plural(lines.length, 'tensor')} with special values</summary>
      <NameList lines={lines} />
    </details>
  );
}

/** `3 too large, 1 became zero, 2 NaN, 1 infinite`, without the zeros. */
export function valuesText({ overflow, underflow, nan, inf }: ConvertStats): string {
  const counts: readonly (readonly [number, string])[] = [
    [overflow, 'too large'],
    [underflow, 'became zero'],
    [nan, 'NaN'],
    [inf, 'infinite'],
  ];
  return counts
    .filter(([count]) => count > 0)
    .map(([count, what]) => `${formatCount(count)} ${what}`)
    .join(', ');
}
