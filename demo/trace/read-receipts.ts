/** A webhook as the demo's catcher received it: one per webhook-id, however often it came. */
export type Receipt = {
  id: string;
  partner: string;
  /** Whether the signature held, by the official Standard Webhooks library. */
  verified: boolean;
  attempts: number;
  /** What the partner did about it. */
  effects: 0 | 1;
  type: string;
  /** RFC 3339. */
  firstAt: string;
  lastAt: string;
};

/** The webhooks about a payment that the demo's partners got since the catcher was started. */
export function readReceipts(catcher: string, txnId: string): Promise<Receipt[]> {
  return ask(`${catcher}/received?txn=${txnId}`);
}

/** All webhooks that they got. */
export function readAllReceipts(catcher: string): Promise<Receipt[]> {
  return ask(`${catcher}/received`);
}

async function ask(url: string): Promise<Receipt[]> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(10_000) });
  if (!answer.ok) throw new Error(`the catcher answered ${answer.status}`);
  return (await answer.json()) as Receipt[];
}
