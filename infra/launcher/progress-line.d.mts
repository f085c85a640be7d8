/** Where progress is shown, such as process.stderr. */
export type ProgressStream = {
  isTTY?: boolean;
  columns?: number;
  write(text: string): unknown;
};

export function showProgress(
  stream: ProgressStream,
  doing: string,
): {
  /** What is under way from now on. */
  now(doing: string): void;
  /** Says how it ended, in a line that stays. */
  end(done: string): void;
};
