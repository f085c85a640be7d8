/** RFC 4180. What a spreadsheet would take for a formula is kept from it by an apostrophe. */
export function csvRow(cells: readonly string[]): string {
  const quoted = cells.map((cell) => {
    const text = /^[=+\-@\t\r]/.test(cell) && !/^-?[\d.]+$/.test(cell) ? `'${cell}` : cell;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  });
  return `${quoted.join(',')}\r\n`;
}
