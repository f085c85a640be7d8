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
