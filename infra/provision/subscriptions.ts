import { LauncherError } from '../launcher-error.ts';
import { usualNames, type Names } from '../names.ts';
import { askPubSub, pubsubName } from './pubsub-rest.ts';

/** Longer than any consumer holds a message before it acknowledges or gives it back. */
const ackDeadlineSeconds = 30;

type EventNames = Pick<
  Names,
  'eventsTopic' | 'notifierSubscription' | 'settlementSubscription' | 'auditorSubscription'
>;

/**
 * Makes the events topic and every subscription, through the emulator's REST interface. The emulator
 * forgets them with everything else when it stops; and what is published before a subscription exists
 * never reaches it.
 */
export async function createSubscriptions(
  emulator: string,
  names: EventNames = usualNames,
): Promise<void> {
  const topic = `topics/${names.eventsTopic}`;
  await put(emulator, topic, {});
  const { notifierSubscription, settlementSubscription, auditorSubscription } = names;
  for (const name of [notifierSubscription, settlementSubscription, auditorSubscription]) {
    const options = { topic: pubsubName(topic), enableMessageOrdering: true, ackDeadlineSeconds };
    await put(emulator, `subscriptions/${name}`, options);
  }
}

async function put(emulator: string, name: string, body: object): Promise<void> {
  const { status, ok, text } = await askPubSub(emulator, { method: 'PUT', name, body });
  const existsAlready = status === 409;
  if (!ok && !existsAlready) {
    throw new LauncherError(`pubsub: making ${name} failed: ${status} ${text}`);
  }
}
