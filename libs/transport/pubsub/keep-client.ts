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
    get: () => (current ??= make()),
    forget: async (client) => {
      if ((await current) === client) current = undefined;
      await client.close();
    },
    close: async () => (await current)?.close(),
  };
}
