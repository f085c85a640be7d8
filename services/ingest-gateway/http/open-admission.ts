import type { Partners } from '@triplock/partners';
import { authenticatePartner } from './authenticate-partner.ts';
import type { Admission } from './authenticate-request.ts';
import type { Config } from '../config.ts';
import { createRateLimiter } from './rate-limiter.ts';

/** Who is let in by the partners' word, and how often by the settings. */
export function openAdmission(partners: Pick<Partners, 'authenticate'>, config: Config): Admission {
  return {
    authenticate: authenticatePartner(partners),
    partnerRate: createRateLimiter({
      perSecond: config.RATE_LIMIT_PER_SECOND,
      burst: config.RATE_LIMIT_BURST,
    }),
    failureRate: createRateLimiter({
      perSecond: config.FAILED_AUTHENTICATION_PER_SECOND,
      burst: config.FAILED_AUTHENTICATION_BURST,
    }),
  };
}
