CREATE OR REPLACE FUNCTION livebox.list_tokens(p_handle text)
RETURNS TABLE (token_id text, handle text, created_at text, expires_at text, state text) LANGUAGE sql STABLE AS $$
    SELECT t.id::text, p.handle, livebox.utc(t.created_at), livebox.utc(t.expires_at),
           CASE WHEN t.revoked_at IS NOT NULL THEN 'revoked'
                WHEN t.expires_at <= livebox.clock() THEN 'expired'
                WHEN p.status <> 'active' THEN 'disabled'
                ELSE 'active' END
      FROM livebox.access_tokens t JOIN livebox.principals p ON p.id = t.principal_id
     WHERE p_handle IS NULL OR lower(p.handle) = lower(p_handle)
     ORDER BY t.id
$$;
COMMENT ON FUNCTION livebox.list_tokens(text) IS
    'The local tokens of a principal, or all of them, oldest first: whose they are and whether they still hold. For the command line.';
