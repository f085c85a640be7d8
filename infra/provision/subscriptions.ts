import { topics } from '@triplock/contracts';
import { LauncherError } from '../launcher-error.ts';

/** The emulator's project. It checks no credentials, so any name does. */
export const pubsubProject = 'triplock';

/** A consumer of the events, by the name of its subscription. */
const subscriptions = ['partner-notifier', 'auditor'];

/** Longer than any consumer holds a message before it acknowledges or gives it back. */
const ackDeadlineSeconds = 30;

/**
 * Makes the events topic and every subscription, through the emulator's REST interface. The emulator
 * forgets them with everything else when it stops; and what is published before a subscription exists
 * never reaches it.
 */
export async function createSubscriptions(emulator: string): Promise<void> {
  const project = `projects/${pubsubProject}`;
  const topic = `${project}/topics/${topics.events}`;
  await put(emulator, topic, {});
  for (const name of subscriptions) {
    const subscription = { topic, enableMessageOrdering: true, ackDeadlineSeconds };
    await put(emulator, `${project}/subscriptions/${name}`, subscription);
  }
}

async function put(emulator: string, name: string, body: object): Promise<void> {
  const response = await fetch(`http://${emulator}/v1/${name}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(10_000),
  });
  const answer = await response.text();
  const existsAlready = response.status === 409;
  if (!response.ok && !existsAlready) {
    throw new LauncherError(`pubsub: making ${name} failed: ${response.status} ${answer}`);
  }
}
