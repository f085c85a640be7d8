import { PartnersUnavailableError, type Authentication, type Partners } from '@triplock/partners';
import { unknownYet } from './story-problems.ts';

/** Asks the partners whose key it is. Not knowing is neither yes nor no: 503. */
export function authenticatePartner(partners: Pick<Partners, 'authenticate'>) {
  return async (apiKey: string): Promise<Authentication> => {
    try {
      return await partners.authenticate(apiKey);
    } catch (error) {
      throw error instanceof PartnersUnavailableError ? unknownYet() : error;
    }
  };
}
