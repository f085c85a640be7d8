/**
 * Makes this process a helper of the bench: it answers every message of the process that started it
 * with what `work` makes of it, and ends together with it.
 *
 * A Ctrl-C reaches the whole group; the parent hears it too, and ends its helpers in its own order.
 */
export function answerParent<Request, Result>(work: (request: Request) => Promise<Result>): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => undefined);
  process.on('disconnect', () => process.exit());
  process.on('message', (request) => {
    work(request as Request).then(
      (result) => process.send?.({ result }),
      (error: unknown) => {
        const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
        process.send?.({ failed: message });
      },
    );
  });
  process.send?.('ready');
}
