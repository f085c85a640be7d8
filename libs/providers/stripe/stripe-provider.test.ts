import assert from 'node:assert/strict';
import { test } from 'node:test';
import { modeSettings, readSettings, SettingsError } from '@triplock/runtime';
import { stripeProvider } from './stripe-provider.ts';

test('only Stripe is asked in production, at whichever of its ports', () => {
  const read = (at: string) =>
    readSettings({ STRIPE_API_URL: at }, { ...modeSettings, ...stripeProvider.settings });
  for (const at of ['https://api.stripe.com', 'https://api.stripe.com:9/']) {
    assert.equal(read(at).STRIPE_API_URL, at);
  }
  for (const at of [
    'http://api.stripe.com',
    'https://api.stripe.com.evil.example',
    'https://api.stripe.com@evil.example',
    'https://evil.example/api.stripe.com',
  ]) {
    assert.throws(() => read(at), SettingsError, at);
  }
});

test('on a developer’s machine Stripe itself is asked by a test key alone', () => {
  assert.equal(stripeProvider.givenIn({}), undefined);
  const url = stripeProvider.givenIn({ STRIPE_API_KEY: 'sk_test_any' });
  assert.equal(url, 'https://api.stripe.com');
  assert.equal(
    stripeProvider.settingsAt(url, { STRIPE_API_KEY: 'sk_test_any' }).STRIPE_API_KEY,
    'sk_test_any',
  );
  // A simulator is never given the account's key.
  const simulated = stripeProvider.settingsAt('http://127.0.0.1:1', {
    STRIPE_API_KEY: 'sk_test_any',
  });
  assert.notEqual(simulated.STRIPE_API_KEY, 'sk_test_any');
  assert.throws(() => stripeProvider.givenIn({ STRIPE_API_KEY: 'sk_live_any' }), SettingsError);
});
