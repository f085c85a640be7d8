import { styleText } from 'node:util';

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

const ansi = /\u001b\[[0-9;]*m/g;

/** Pads on the right to a width in columns; colours take none. */
export function pad(text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - widthOf(text)));
}

/** Pads on the left, for figures. */
export function padStart(text: string, columns: number): string {
  return ' '.repeat(Math.max(0, columns - widthOf(text))) + text;
}

/** Columns that a text takes; everything we print is one column a character. */
export function widthOf(text: string): number {
  return text.replace(ansi, '').length;
}
