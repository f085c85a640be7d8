import { codes } from 'currency-codes';

/**
 * The currency codes of ISO 4217. The package's list is of June 2024; amendment 176 has since added
 * the Caribbean guilder.
 */
export const currencies: readonly string[] = [...codes(), 'XCG'];
