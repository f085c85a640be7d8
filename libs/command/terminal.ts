import { styleText } from 'node:util';

/** Where a command shows what happens. */
export type Terminal = {
  /** A line of the story on stdout; swallowed under `--json`. */
  line(text?: string): void;
  /** What is under way, on stderr: one line that rewrites itself, or a line every few seconds. */
  progress(text: string): void;
  /** A step of a long way, on stderr; it stays. */
  note(text: string): void;
  /** Takes the progress line away. */
  clear(): void;
  /** The result for machines on stdout; swallowed without `--json`. */
  result(value: unknown): void;
};

/** Often enough to see that it lives, seldom enough for a log. */
const progressEveryMs = 5_000;

/** A terminal on the process's own streams. */
export function openTerminal({ json }: { json: boolean }): Terminal {
  const live = process.stderr.isTTY;
  let shown = '';
  let shownAt = performance.now();
  const clear = () => {
    if (live && shown !== '') process.stderr.write('\r\u001b[2K');
    shown = '';
  };
  return {
    clear,
    line: (text = '') => {
      clear();
      if (!json) process.stdout.write(`${text}\n`);
    },
    progress: (text) => {
      if (text === shown) return;
      if (live) {
        const columns = (process.stderr.columns ?? 80) - 1;
        process.stderr.write(`\r\u001b[2K${style.faint(`… ${text}`.slice(0, columns))}`);
      } else {
        if (performance.now() - shownAt < progressEveryMs) return;
        process.stderr.write(`… ${text}\n`);
      }
      shown = text;
      shownAt = performance.now();
    },
    note: (text) => {
      clear();
      process.stderr.write(`${style.faint(`… ${text}`)}\n`);
    },
    result: (value) => {
      clear();
      if (json) process.stdout.write(`${toJson(value, 2)}\n`);
    },
  };
}

/**
 * The few looks that the commands' output has. `styleText` leaves the text plain when stdout is no
 * terminal or NO_COLOR is set.
 */
export const style = {
  title: (text: string) => styleText('bold', text),
  name: (text: string) => styleText('cyan', text),
  faint: (text: string) => styleText('dim', text),
  good: (text: string) => styleText('green', text),
  bad: (text: string) => styleText(['bold', 'red'], text),
};

/** JSON of a value that may hold amounts: bigints, which JSON lacks, all of ours below 2^53. */
export function toJson(value: unknown, indent?: number): string {
  const plain = (_name: string, each: unknown) => (typeof each === 'bigint' ? Number(each) : each);
  return JSON.stringify(value, plain, indent);
}

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

/** What a list may take of a terminal's width. */
const listColumns = 100;
/** Below it words are broken off more often than it is worth. */
const narrowest = 16;

/**
 * Lines of a table that fit a terminal, for lists that are read and not compared: the widest
 * columns give way, and their cells go on below. What has no space, such as an id, is not broken.
 */
export function renderList(columns: readonly Column[], rows: readonly string[][]): string[] {
  const gap = 2;
  const widths = columns.map(({ head }, column) =>
    Math.max(widthOf(head), ...rows.map((row) => widthOf(row[column] ?? ''))),
  );
  const room = listColumns - gap * (columns.length - 1);
  while (widths.reduce((sum, width) => sum + width, 0) > room) {
    const widest = widths.indexOf(Math.max(...widths));
    if (widths[widest]! <= narrowest) break;
    widths[widest]! -= 1;
  }
  const wrapped = rows.flatMap((row) => {
    const cells = columns.map((_, column) => wrapWords(row[column] ?? '', widths[column]!));
    const height = Math.max(...cells.map((lines) => lines.length));
    return Array.from({ length: height }, (_, line) => cells.map((lines) => lines[line] ?? ''));
  });
  return renderTable(columns, wrapped);
}

/** Breaks a text at its spaces into lines of at most so many columns, where its words allow. */
function wrapWords(text: string, columns: number): string[] {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!;
    const longer = line === '' ? word : `${line} ${word}`;
    if (widthOf(longer) <= columns || line === '') lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
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
