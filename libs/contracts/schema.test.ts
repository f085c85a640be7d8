import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';
import { Type as theirs } from 'typebox';
import { Compile, compileSchemas, Type as ours, type TSchema } from './schema.ts';

const ofEach = (type: typeof ours | typeof theirs): TSchema[] => {
  const { String, Integer, Optional, Object, Literal, Array, Boolean, Null, Unsafe } = type;
  const name = String({ minLength: 1, pattern: '^[a-z]+$', description: 'a name' });
  return [
    String(),
    name,
    Integer({ format: 'int64', minimum: 1, maximum: 9 }),
    Boolean(),
    Null(),
    Literal('payment'),
    Literal(1),
    Literal(false, { description: 'none' }),
    Array(name, { maxItems: 3 }),
    Unsafe<string>({ type: 'string', enum: ['a', 'b'] }),
    Object({}),
    Object({ name }, { additionalProperties: false }),
    Object({ only: Optional(name) }),
    Object({
      name,
      again: Optional(name),
      size: Integer({ format: 'int32' }),
      inner: Object({ name }),
    }),
    Object({ copied: String({ ...Optional(name), description: 'another' }) }),
  ];
};

test("a schema is, key by key, what TypeBox's own constructor makes", () => {
  assert.deepEqual(ofEach(ours).map(asJson), ofEach(theirs).map(asJson));
});

test('a whole number has 64 bits, unless its schema says otherwise', () => {
  assert.deepEqual(ours.Integer(), { type: 'integer', format: 'int64' });
  assert.deepEqual(ours.Integer({ format: 'int32' }), { type: 'integer', format: 'int32' });
});

const asJson = (schema: TSchema): unknown => JSON.parse(JSON.stringify(schema));

test('a validator judges alike whether it was compiled before or by its first question', () => {
  const schema = ours.Object({ name: ours.String() }, { additionalProperties: false });
  const before = Compile(schema);
  compileSchemas();
  for (const validator of [before, Compile(schema)]) {
    assert.ok(validator.Check({ name: 'a' }));
    assert.deepEqual(validator.Errors({ name: 'a' }), []);
    assert.ok(!validator.Check({ name: 1 }));
    assert.deepEqual(
      validator.Errors({ name: 1 }).map((each) => each.instancePath),
      ['/name'],
    );
  }
});

test('whoever only has the contracts at hand loads no validator', () => {
  const loads = `
    import { registerHooks } from 'node:module';
    registerHooks({ load(url, context, next) {
      if (url.includes('/typebox/')) console.log(url);
      return next(url, context);
    } });
    await import('${import.meta.resolve('./index.ts')}');`;
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    ['--conditions', 'development', '--input-type=module', '--eval', loads],
    { encoding: 'utf8' },
  );
  assert.equal(status, 0, stderr);
  assert.equal(stdout, '');
});
