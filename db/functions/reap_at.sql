CREATE OR REPLACE FUNCTION livebox.reap_at(p_key text, p_from timestamptz, p_limits jsonb) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_from + make_interval(secs => (p_limits->>p_key)::double precision)
$$;
COMMENT ON FUNCTION livebox.reap_at(text, timestamptz, jsonb) IS 'When the deadline of that configuration key passes that counts from p_from.';
