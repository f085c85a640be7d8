import { style } from './terminal.ts';

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

/** Pads on the right to a width in columns; colours take none. */
export function pad(text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - widthOf(text)));
}

/** Columns that a text takes; everything we print is one column a character. */
export function widthOf(text: string): number {
  return text.replace(ansi, '').length;
}

const ansi = /\u001b\[[0-9;]*m/g;

function padStart(text: string, columns: number): string {
  return ' '.repeat(Math.max(0, columns - widthOf(text))) + text;
}

/** An amount of minor units as people write it: 1250 and EUR give `12.50 EUR`. */
export function formatMoney(minorUnits: bigint | number | string, currency: string): string {
  const digits = minorDigits(currency);
  const value = BigInt(minorUnits);
  const text = (value < 0n ? -value : value).toString().padStart(digits + 1, '0');
  const whole = text.slice(0, text.length - digits).replace(/\B(?=(\d{3})+$)/g, ' ');
  const fraction = digits === 0 ? '' : `.${text.slice(-digits)}`;
  return `${value < 0n ? '-' : ''}${whole}${fraction} ${currency}`;
}

/** `1 row`, `2 rows`; the plural is made with an s unless given. */
export function count(n: number, noun: string, plural = `${noun}s`): string {
  return `${n} ${n === 1 ? noun : plural}`;
}

/** A time span for people: `12 ms`, `1.4 s`, `2 min 5 s`, `23 h 59 min`. */
export function formatSpan(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1_000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function minorDigits(currency: string): number {
  const format = new Intl.NumberFormat('en', { style: 'currency', currency });
  return format.resolvedOptions().maximumFractionDigits ?? 2;
}
