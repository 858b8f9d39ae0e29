CREATE OR REPLACE FUNCTION livebox.refused(code text, extra jsonb DEFAULT NULL) RETURNS livebox.answer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ROW(code, extra::text, NULL, NULL, NULL, NULL, NULL)::livebox.answer
$$;
COMMENT ON FUNCTION livebox.refused(text, jsonb) IS
    'The answer of an operation that refuses: a problem code of the contract and the members that explain it. Refusals are answers, never exceptions: they undo nothing of others in the same batch.';
