/** Ids that are sent in groups: one request carries many. */
export type IdGroup = {
  add(id: string): void;
  /** Sends what is gathered and resolves when every request under way has ended. */
  flush(): Promise<void>;
};

/** A longer wait would only hold up the broker's flow control. */
const gatherMs = 10;
/** A request may have 512 KiB (cloud.google.com/pubsub/quotas), and an id 200 bytes. */
const idsMax = 1_000;

/** Sends ids some milliseconds after the first of a group came, or when there are many. */
export function gatherIds(send: (ids: string[]) => Promise<void>): IdGroup {
  const underWay = new Set<Promise<void>>();
  let ids: string[] = [];
  let timer: NodeJS.Timeout | undefined;

  const sendNow = () => {
    clearTimeout(timer);
    timer = undefined;
    const sending = send(ids);
    ids = [];
    underWay.add(sending);
    void sending.finally(() => underWay.delete(sending));
  };
  return {
    add: (id) => {
      ids.push(id);
      if (ids.length >= idsMax) sendNow();
      else timer ??= setTimeout(sendNow, gatherMs);
    },
    flush: async () => {
      if (ids.length > 0) sendNow();
      await Promise.all(underWay);
    },
  };
}
