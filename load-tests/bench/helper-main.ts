/*
 * The main file of a helper process: loads the module that it is started with and answers every
 * message of the process that started it with what the module's `openHelper` makes of it. It ends
 * together with that process.
 */
const [, , module] = process.argv;
const { openHelper } = (await import(module!)) as {
  openHelper(): Promise<(request: unknown) => Promise<unknown>>;
};

// A Ctrl-C reaches the whole group; the parent gets it too, and ends its helpers in its own order.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => undefined);
process.on('disconnect', () => process.exit());

const answer = await openHelper();
process.on('message', (request) => {
  answer(request).then(
    (result) => process.send?.({ result }),
    (error: unknown) => {
      const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
      process.send?.({ failed: message });
    },
  );
});
process.send?.('ready');

export {};
