CREATE OR REPLACE FUNCTION livebox.done(
    code text, body jsonb, version bigint DEFAULT NULL, kind text DEFAULT NULL, id text DEFAULT NULL,
    cursor jsonb DEFAULT NULL, effects jsonb DEFAULT NULL
) RETURNS livebox.answer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ROW(code, body::text, version, kind, id, cursor, effects)::livebox.answer
$$;
COMMENT ON FUNCTION livebox.done(text, jsonb, bigint, text, text, jsonb, jsonb) IS
    'The answer of an operation that did what was asked: ok, created, accepted or no_content, and the finished JSON text.';
