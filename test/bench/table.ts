import { type Figure, failuresOf, quantity, type Row, summarize } from './measurement.js';

/** The rows as lines of text: a column for each figure, its median with least and greatest beside it. */
export function tableText(rows: readonly Row[]): string {
  const names = [...new Set(rows.flatMap((row) => row.figures.map((figure) => figure.name)))];
  const cells = rows.map((row) => [
    row.subject,
    ...names.map((name) => figureText(row.figures.find((figure) => figure.name === name))),
    failuresOf(row).length === 0 ? 'ok' : 'FAILED',
  ]);
  const lines = [['', ...names, ''], ...cells];
  const widths = lines[0]?.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0))) ?? [];
  return lines
    .map((line) =>
      line
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function figureText(figure: Figure | undefined): string {
  if (figure === undefined) return '-';
  const { median, min, max } = summarize(figure.samples);
  const text = quantity(median, figure.unit);
  return figure.samples.length === 1
    ? text
    : `${text} (${quantity(min, figure.unit)} to ${quantity(max, figure.unit)})`;
}
