/** A client that is made when first needed and made anew after its connection hung. */
export type KeptClient<Client> = {
  get(): Promise<Client>;
  /** The next `get` makes another: TCP alone would notice a dead connection after minutes. */
  forget(client: Client): Promise<void>;
  close(): Promise<void>;
};

/** Keeps one client of a kind at a time. */
export function keepClient<Client extends { close(): Promise<void> }>(
  make: () => Promise<Client>,
): KeptClient<Client> {
  let current: Promise<Client> | undefined;
  return {
    get: () => {
      if (current === undefined) {
        const made = make();
        current = made;
        // Whoever asked gets the error; the next one asks anew.
        made.catch(() => {
          if (current === made) current = undefined;
        });
      }
      return current;
    },
    forget: async (client) => {
      const kept = await current?.catch(() => undefined);
      if (kept === client) current = undefined;
      await client.close();
    },
    close: async () => {
      const kept = await current?.catch(() => undefined);
      await kept?.close();
    },
  };
}
