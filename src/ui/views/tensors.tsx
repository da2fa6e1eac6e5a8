import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { TensorRow } from '../../worker/protocol.js';
import { formatCount, formatShape, plural } from '../format.js';
import { dtypeLabel, ORIGINS } from '../labels.js';
import { ROW_HEIGHT, rowsInSight, search } from '../table.js';

/** A searchable table of tensors. Only the rows in sight are in the document, so that 50,000 are no slower than 50. */
export function TensorTable({ tensors }: { readonly tensors: readonly TensorRow[] }): JSX.Element {
  const [query, setQuery] = useState('');
  const [top, setTop] = useState(0);
  const found = useMemo(() => search(tensors, query), [tensors, query]);
  const { first, end } = rowsInSight(found.length, top);
  return (
    <div class="tensors">
      <div class="search">
        <input
          type="search"
          class="query"
          name="search"
          aria-label="Search tensors by name"
          placeholder="Search by name"
          autocomplete="off"
          spellcheck={false}
          value={query}
          onInput={({ currentTarget }) => setQuery(currentTarget.value)}
        />
        <span class="hint" role="status">
          {found.length === tensors.length
            ? plural(tensors.length, 'tensor')
            : `${formatCount(found.length)} of ${plural(tensors.length, 'tensor')}`}
        </span>
      </div>
      <section
        class="table-window"
        aria-label="Table of tensors"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
        tabIndex={0}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        <table
          aria-rowcount={found.length + 1}
          style={{ marginTop: `${first * ROW_HEIGHT}px`, marginBottom: `${(found.length - end) * ROW_HEIGHT}px` }}
        >
          <thead>
            <tr aria-rowindex={1}>
              <th scope="col">Name</th>
              <th scope="col">Shape</th>
              <th scope="col">From</th>
              <th scope="col">Precision</th>
            </tr>
          </thead>
          <tbody>
            {found.slice(first, end).map((row, i) => (
              <tr key={row.name} aria-rowindex={first + i + 2}>
                <td class="name">
                  <code title={row.name}>{row.name}</code>
                </td>
                <td>{formatShape(row.shape)}</td>
                <td>{ORIGINS[row.origin]}</td>
                <td>{precision(row)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </div>
  );
}

function precision({ from, to }: TensorRow): string {
  return to === undefined || from === to ? dtypeLabel(from) : `${dtypeLabel(from)} → ${dtypeLabel(to)}`;
}
