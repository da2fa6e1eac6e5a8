import { type Figure, quantity, type Row, summarize } from './measurement.js';

/** The rows as lines of text: a column for each figure, its median with least and greatest beside it, and whether it is within its target. */
export function tableText(rows: readonly Row[]): string {
  const names = [...new Set(rows.flatMap((row) => row.figures.map((figure) => figure.name)))];
  const cells = rows.map((row) => [
    row.subject,
    ...names.map((name) => figureText(row.figures.find((figure) => figure.name === name))),
    row.failures.length === 0 ? 'right' : 'WRONG',
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
  const { unit, samples, target } = figure;
  const { median, min, max } = summarize(samples);
  const range = samples.length === 1 ? '' : ` (${quantity(min, unit)} to ${quantity(max, unit)})`;
  const judged = target === undefined ? '' : `${median <= target ? ', within' : ', OVER'} ${quantity(target, unit)}`;
  return `${quantity(median, unit)}${range}${judged}`;
}
