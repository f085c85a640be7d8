import type { Answer, PaymentBody } from '../partner.ts';
import type { System } from '../system.ts';

/** What a partner sent and what it got. */
export type Exchange = { partner: string; key: string; body: PaymentBody; answer: Answer };

/** The same system; what its partners send and get is written down. */
export function keepJournal(system: System, journal: Exchange[]): System {
  return {
    ...system,
    // They change while processes are started again.
    get endpoints() {
      return system.endpoints;
    },
    partner: (id) => {
      const partner = system.partner(id);
      return {
        ...partner,
        pay: async (key, body) => {
          const answer = await partner.pay(key, body);
          journal.push({ partner: id, key, body, answer });
          return answer;
        },
      };
    },
  };
}
