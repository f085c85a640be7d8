/**
 * A call of the emulator's REST interface. `name` is a resource, such as
 * `topics/payment-events.v1`.
 */
export type PubSubRequest = {
  method: 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE';
  name: string;
  body?: object;
};

/** The emulator's project. It checks no credentials, so any name does. */
export const pubsubProject = 'triplock';

/** The resource's full name, as bodies refer to it. */
export function pubsubName(name: string): string {
  return `projects/${pubsubProject}/${name}`;
}

/** What the emulator answered: the status, and the body as text. */
export type PubSubAnswer = { status: number; ok: boolean; text: string };

/**
 * Asks the Pub/Sub emulator for one thing. An answer that says no is an answer too.
 *
 * @param emulator its `host:port`.
 * @throws when it does not answer within 10 s.
 */
export async function askPubSub(
  emulator: string,
  { method, name, body }: PubSubRequest,
): Promise<PubSubAnswer> {
  const response = await fetch(`http://${emulator}/v1/${pubsubName(name)}`, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(10_000),
  });
  return { status: response.status, ok: response.ok, text: await response.text() };
}
