/** The file that runs it, the line that `--help` shows, what refuses its words. */
type Command = readonly [file: string, does: string, refusing?: string];

export const operators: string;
export const commands: Readonly<Record<string, Command>>;
