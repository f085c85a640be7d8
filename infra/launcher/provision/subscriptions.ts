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
 * `made`: something was missing, as after a start of an emulator, which has then lost its events.
 */
export type SubscriptionsOutcome = { outcome: 'made' | 'were there' };

/**
 * Makes the events topic and every subscription that is missing, through the emulator's REST
 * interface. The emulator forgets them with everything else when it stops; and what is published
 * before a subscription exists never reaches it.
 */
export async function createSubscriptions(
  emulator: string,
  names: EventNames = usualNames,
): Promise<SubscriptionsOutcome> {
  const topic = `topics/${names.eventsTopic}`;
  const puts = [await put(emulator, topic, {})];
  const { notifierSubscription, settlementSubscription, auditorSubscription } = names;
  for (const name of [notifierSubscription, settlementSubscription, auditorSubscription]) {
    const options = { topic: pubsubName(topic), enableMessageOrdering: true, ackDeadlineSeconds };
    puts.push(await put(emulator, `subscriptions/${name}`, options));
  }
  return { outcome: puts.includes('made') ? 'made' : 'were there' };
}

async function put(emulator: string, name: string, body: object): Promise<'made' | 'was there'> {
  const { status, ok, text } = await askPubSub(emulator, { method: 'PUT', name, body });
  if (ok) return 'made';
  if (status === 409) return 'was there';
  throw new LauncherError(`pubsub: making ${name} failed: ${status} ${text}`);
}
