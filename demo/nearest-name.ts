/** The name that was probably meant; `undefined` when none is near. */
export function nearestName(meant: string, names: readonly string[]): string | undefined {
  const [nearest] = names
    .map((name) => ({ name, changes: changesBetween(meant.toLowerCase(), name) }))
    .filter(({ name, changes }) => changes <= Math.max(2, Math.floor(name.length / 3)))
    .sort((one, other) => one.changes - other.changes);
  return nearest?.name ?? names.find((name) => meant.length >= 3 && name.startsWith(meant));
}

/** How many letters are to be changed, put in or taken out to make one word of the other. */
function changesBetween(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [line, letter] of [...one].entries()) {
    const next = [line + 1];
    for (const [column, wanted] of [...other].entries()) {
      const replaced = row[column]! + (letter === wanted ? 0 : 1);
      next.push(Math.min(replaced, row[column + 1]! + 1, next[column]! + 1));
    }
    row = next;
  }
  return row.at(-1)!;
}
