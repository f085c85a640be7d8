import type { Statement } from '@triplock/partners';
import { deriveId, formatDecimal, type PartnerId } from '@triplock/payments';

/**
 * A day's statements as a BankToCustomerStatement of ISO 20022, `camt.053.001.08`: one for each
 * currency, with what was there before and after, and an entry for what of one kind was settled on
 * one day. What came late has that day as its value date. Of a day that is closed it has always the
 * same bytes.
 *
 * @param date `yyyy-mm-dd`.
 */
export function renderCamt053(
  partnerId: PartnerId,
  date: string,
  statements: readonly Statement[],
): string {
  const end = new Date(Date.parse(`${date}T00:00:00Z`) + 86_400_000).toISOString();
  const head = element('GrpHdr', element('MsgId', date), element('CreDtTm', end));
  const each = statements.map((statement) => renderStatement(partnerId, { date, end, statement }));
  const namespace = 'urn:iso:std:iso:20022:tech:xsd:camt.053.001.08';
  const message = element('BkToCstmrStmt', head, ...each);
  return `<?xml version="1.0" encoding="UTF-8"?>\n<Document xmlns="${namespace}">${message}</Document>\n`;
}

function renderStatement(
  partnerId: PartnerId,
  { date, end, statement }: { date: string; end: string; statement: Statement },
): string {
  const { currency, opening, entries } = statement;
  const amounts = entries.map(({ amount }) => amount);
  const net = sumOf(amounts);
  const balance = (code: string, amount: bigint) =>
    element(
      'Bal',
      element('Tp', element('CdOrPrtry', element('Cd', code))),
      moneyOf(currency, amount),
      element('Dt', element('Dt', date)),
    );
  const total = (name: string, of: readonly bigint[]) =>
    element(
      name,
      element('NbOfNtries', `${of.length}`),
      element('Sum', decimal(currency, sumOf(of))),
    );
  return element(
    'Stmt',
    element('Id', `${date}-${currency}`),
    element('CreDtTm', end),
    element('FrToDt', element('FrDtTm', `${date}T00:00:00Z`), element('ToDtTm', end)),
    element(
      'Acct',
      element('Id', element('Othr', element('Id', accountOf(partnerId, currency)))),
      element('Ccy', currency),
      element('Nm', partnerId),
    ),
    balance('OPBD', opening),
    balance('CLBD', opening + net),
    element(
      'TxsSummry',
      total(
        'TtlCdtNtries',
        amounts.filter((amount) => amount > 0n),
      ),
      total(
        'TtlDbtNtries',
        amounts.filter((amount) => amount < 0n),
      ),
    ),
    ...entries.map((entry) => renderEntry(date, currency, entry)),
  );
}

/** In the 34 characters that there are, a name that is longer by a hash of it. */
function accountOf(partnerId: PartnerId, currency: string): string {
  const account = `${partnerId}-${currency}`;
  if (account.length <= 34) return account;
  return deriveId('account', partnerId, currency).replaceAll('-', '');
}

function renderEntry(
  date: string,
  currency: string,
  { kind, settledOn, count, amount }: Statement['entries'][number],
): string {
  return element(
    'Ntry',
    element('NtryRef', `${settledOn}-${kind}`),
    moneyOf(currency, amount),
    element('Sts', element('Cd', 'BOOK')),
    element('BookgDt', element('Dt', date)),
    element('ValDt', element('Dt', settledOn)),
    element('BkTxCd', element('Prtry', element('Cd', kind))),
    element('NtryDtls', element('Btch', element('NbOfTxs', `${count}`))),
  );
}

/** An amount is never below zero: it says which way it goes. */
function moneyOf(currency: string, amount: bigint): string {
  return (
    `<Amt Ccy="${currency}">${decimal(currency, amount)}</Amt>` +
    element('CdtDbtInd', amount < 0n ? 'DBIT' : 'CRDT')
  );
}

const sumOf = (amounts: readonly bigint[]) => amounts.reduce((sum, amount) => sum + amount, 0n);

const decimal = (currency: string, amount: bigint) =>
  formatDecimal(amount < 0n ? -amount : amount, currency);

/** No text in it needs an escape: dates, codes, names of partners, and numbers. */
const element = (name: string, ...content: string[]) => `<${name}>${content.join('')}</${name}>`;
