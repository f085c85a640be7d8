import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { count, formatMoney, formatSpan, pad, renderTable, style, widthOf } from './terminal.ts';

describe('what people read', () => {
  it('money is shown in major units with its currency, to the last minor unit', () => {
    assert.equal(formatMoney(1_250n, 'EUR'), '12.50 EUR');
    assert.equal(formatMoney(5, 'USD'), '0.05 USD');
    assert.equal(formatMoney(1_250, 'JPY'), '1 250 JPY');
    assert.equal(formatMoney(1_250, 'KWD'), '1.250 KWD');
    assert.equal(formatMoney('99999999999999999999', 'EUR'), '999 999 999 999 999 999.99 EUR');
    assert.equal(formatMoney(-5n, 'EUR'), '-0.05 EUR');
  });

  it('columns are as wide as their widest cell, and figures end on one line', () => {
    const columns = [{ head: 'name' }, { head: 'n', align: 'right' as const }];
    const lines = renderTable(columns, [
      ['a', '1'],
      ['longer', '1000'],
    ]);
    assert.deepEqual(lines, ['name       n', 'a          1', 'longer  1000']);
  });

  it('a colour takes no column', () => {
    assert.equal(widthOf('\u001b[32mok\u001b[39m'), 2);
    assert.equal(pad('\u001b[32mok\u001b[39m', 4).slice(-2), '  ');
  });

  it('there is no colour where nobody sees it', () => {
    // Tests write to a pipe, as a log or another program does.
    assert.equal(style.bad('text'), 'text');
  });

  it('counts and spans are read out as people say them', () => {
    assert.equal(count(1, 'row'), '1 row');
    assert.equal(count(2, 'row'), '2 rows');
    assert.equal(count(0, 'entry', 'entries'), '0 entries');
    const spans = [3.4, 1_440, 125_000, 86_399_000].map(formatSpan);
    assert.deepEqual(spans, ['3 ms', '1.4 s', '2 min 5 s', '23 h 59 min']);
  });
});
