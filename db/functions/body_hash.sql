CREATE OR REPLACE FUNCTION livebox.body_hash(p_body jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(sha256(convert_to(coalesce(p_body, '{}'::jsonb)::text, 'UTF8')), 'hex')
$$;
COMMENT ON FUNCTION livebox.body_hash(jsonb) IS 'SHA-256 (hex) of a body whatever the order of its members; of an absent one as of {}.';
