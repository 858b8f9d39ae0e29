CREATE OR REPLACE FUNCTION livebox.normalise_reason(p_reason text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN EXISTS (SELECT FROM livebox.run_reasons r
                              WHERE r.code = p_reason AND r.state = 'failed' AND r.setter IN ('adapter', 'both'))
                THEN p_reason ELSE 'adapter_error' END
$$;
COMMENT ON FUNCTION livebox.normalise_reason(text) IS
    'The reason that an adapter''s failed is stored with: its own where it may give it, else adapter_error.';
