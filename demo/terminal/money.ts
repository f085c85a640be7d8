/** An amount of minor units as people write it: 1250 and EUR give `12.50 EUR`. */
export function formatMoney(minorUnits: bigint | number | string, currency: string): string {
  const digits = minorDigits(currency);
  const value = BigInt(minorUnits);
  const text = (value < 0n ? -value : value).toString().padStart(digits + 1, '0');
  const whole = text.slice(0, text.length - digits).replace(/\B(?=(\d{3})+$)/g, ' ');
  const fraction = digits === 0 ? '' : `.${text.slice(-digits)}`;
  return `${value < 0n ? '-' : ''}${whole}${fraction} ${currency}`;
}

function minorDigits(currency: string): number {
  const format = new Intl.NumberFormat('en', { style: 'currency', currency });
  return format.resolvedOptions().maximumFractionDigits ?? 2;
}
