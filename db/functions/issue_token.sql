CREATE OR REPLACE FUNCTION livebox.issue_token(p_handle text, p_hash text, p_seconds double precision)
RETURNS TABLE (token_id text, principal_id text, expires_at text) LANGUAGE sql VOLATILE AS $$
    INSERT INTO livebox.access_tokens AS t (principal_id, hash, created_at, expires_at)
    SELECT p.id, decode(p_hash, 'hex'), c.now, c.now + make_interval(secs => p_seconds)
      FROM livebox.principals p CROSS JOIN (SELECT livebox.clock() AS now OFFSET 0) AS c
     WHERE lower(p.handle) = lower(p_handle) AND p.status = 'active'
    RETURNING t.id::text, t.principal_id::text, livebox.utc(t.expires_at)
$$;
COMMENT ON FUNCTION livebox.issue_token(text, text, double precision) IS
    'Keeps a local token, by its SHA-256 in hex, for the active principal of that handle; no row when there is none. For the command line.';
