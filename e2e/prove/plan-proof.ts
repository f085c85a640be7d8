import type { Column } from './choose-columns.ts';
import type { PromiseFile } from './choose-files.ts';

/** What is tried on a system, and what is not and why. */
export type PlannedColumn = {
  column: Column;
  promises: readonly { file: PromiseFile; whyNot?: string }[];
};

/** Leaves out what does not apply to a system, or was tried on another where it is the same. */
export function planProof(
  columns: readonly Column[],
  files: readonly PromiseFile[],
): PlannedColumn[] {
  const triedOn = new Map<string, Column[]>(files.map(({ name }) => [name, []]));
  return columns.map((column) => ({
    column,
    promises: files.map((file) => {
      const tried = triedOn.get(file.name)!;
      const whyNot = file.whyNotOn[column.ledger] ?? whySame(file, column, tried);
      if (whyNot !== undefined) return { file, whyNot };
      tried.push(column);
      return { file };
    }),
  }));
}

/**
 * Why a promise is the same on a system where it was tried; nothing where it has to be tried here.
 */
function whySame(
  { sameOnClaims, sameOnLedgers }: PromiseFile,
  { claims, ledger }: Column,
  tried: readonly Column[],
): string | undefined {
  const same = tried.find(
    (other) =>
      (other.claims === claims || sameOnClaims !== undefined) &&
      (other.ledger === ledger || sameOnLedgers !== undefined),
  );
  if (same === undefined) return undefined;
  return same.claims === claims ? sameOnLedgers : sameOnClaims;
}
