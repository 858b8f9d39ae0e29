CREATE OR REPLACE FUNCTION livebox.check_lane(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE sql IMMUTABLE AS $$
    SELECT livebox.done('no_content', NULL)
$$;
COMMENT ON FUNCTION livebox.check_lane(jsonb, jsonb) IS
    'Changes nothing: that it is answered proves that writes are committed. For the server only.';
