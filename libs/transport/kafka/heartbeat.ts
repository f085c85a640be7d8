import type { Logger } from '@triplock/runtime';

/** The membership while one batch is in hand. */
export type Heartbeat = {
  /** Sends a heartbeat if one is due. @throws when the partition was taken away. */
  beat(): Promise<void>;
  /** Why the partition was taken away, once it was. */
  lost(): Error | undefined;
  stop(): void;
};

/** The group went on without this member. While it only asks everybody to join again, it waits. */
const takenAway = ['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'FENCED_INSTANCE_ID'];

/**
 * Keeps a member alive while its batch is in hand, also when the handler waits long for a database:
 * kafkajs itself sends heartbeats only between batches.
 */
export function keepAlive(
  sendHeartbeat: () => Promise<void>,
  { intervalMs, logger }: { intervalMs: number; logger: Logger },
): Heartbeat {
  let lost: Error | undefined;

  const attempt = async () => {
    try {
      await sendHeartbeat();
    } catch (error) {
      if (error instanceof Error && takenAway.includes((error as { type?: string }).type ?? '')) {
        lost = error;
      } else logger.debug({ err: error }, 'a heartbeat failed');
    }
  };
  const timer = setInterval(() => void attempt(), intervalMs);
  return {
    beat: async () => {
      await attempt();
      if (lost) throw lost;
    },
    lost: () => lost,
    stop: () => clearInterval(timer),
  };
}
