import { codes } from 'currency-codes';

/**
 * Codes of ISO 4217 that have no minor unit, so that no amount can be told in them: metals, units
 * of account, a code for tests, and the one for no currency at all.
 */
const withoutMinorUnit = new Set('XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX'.split(' '));

/**
 * The currency codes of ISO 4217 that money can be paid in. The package's list is of June 2024;
 * amendment 176 has since added the Caribbean guilder.
 */
export const currencies: readonly string[] = [...codes(), 'XCG'].filter(
  (code) => !withoutMinorUnit.has(code),
);
