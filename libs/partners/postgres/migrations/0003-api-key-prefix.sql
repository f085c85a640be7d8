-- What of an API key may be shown, so that an operator can tell keys apart and revoke the right one.
-- Null for a key that was made before this.
ALTER TABLE api_keys ADD COLUMN prefix text;
