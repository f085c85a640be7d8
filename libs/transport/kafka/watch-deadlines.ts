/** A running watch. */
export type DeadlineWatch = {
  /** A deadline begins now, unless one is awaited already. */
  expect(): void;
  stop(): void;
};

/**
 * One timer for all deadlines, which pass in the order in which records came. `check` settles those
 * that have passed and returns the next one.
 */
export function watchDeadlines(
  timeoutMs: number,
  check: (now: number) => number | undefined,
): DeadlineWatch {
  let timer: NodeJS.Timeout | undefined;
  const look = () => {
    const now = performance.now();
    const next = check(now);
    timer = next === undefined ? undefined : setTimeout(look, Math.max(1, next - now));
  };
  return {
    expect: () => void (timer ??= setTimeout(look, timeoutMs)),
    stop: () => clearTimeout(timer),
  };
}

/** The earlier of two deadlines, where there is one. */
export function earliest(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);
}
