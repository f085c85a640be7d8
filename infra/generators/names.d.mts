/** A kind of piece that a generator makes, by its name in generators.json. */
export type Kind = 'consumer' | 'service' | 'transaction' | 'rename' | 'remove';

export const shapes: Readonly<Record<Exclude<Kind, 'remove'>, { shape: RegExp; like: string }>>;
export const codeWords: ReadonlySet<string>;
export function refusalOf(kind: Kind, name: string, paths: readonly string[]): string | undefined;
export function refuseWords(words: readonly string[], root: string): string | undefined;
