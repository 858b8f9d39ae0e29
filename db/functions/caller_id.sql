CREATE OR REPLACE FUNCTION livebox.caller_id(p_caller jsonb) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (p_caller->>'principal')::uuid
$$;
COMMENT ON FUNCTION livebox.caller_id(jsonb) IS 'The principal of a caller.';
