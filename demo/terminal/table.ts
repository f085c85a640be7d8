import { pad, padStart, style, widthOf } from './style.ts';

/** A column: its heading, and `right` for figures. */
export type Column = { head: string; align?: 'left' | 'right' };

/** Lines of a table without borders; columns are as wide as their widest cell. */
export function renderTable(columns: readonly Column[], rows: readonly string[][]): string[] {
  const widths = columns.map(({ head }, column) =>
    Math.max(widthOf(head), ...rows.map((row) => widthOf(row[column] ?? ''))),
  );
  const line = (cells: readonly string[]) =>
    columns
      .map(({ align }, column) => {
        const cell = cells[column] ?? '';
        return align === 'right' ? padStart(cell, widths[column]!) : pad(cell, widths[column]!);
      })
      .join('  ')
      .trimEnd();
  return [style.faint(line(columns.map(({ head }) => head))), ...rows.map(line)];
}
