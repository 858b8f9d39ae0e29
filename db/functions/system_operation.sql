CREATE OR REPLACE FUNCTION livebox.system_operation(op text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT op IN ('reap_run', 'apply_consequence', 'check_lane')
$$;
COMMENT ON FUNCTION livebox.system_operation(text) IS
    'The writing operations that the server starts by itself. Only the server may, and it may no others.';
