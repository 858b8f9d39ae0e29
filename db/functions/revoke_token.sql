CREATE OR REPLACE FUNCTION livebox.revoke_token(p_token uuid) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE livebox.access_tokens t SET revoked_at = coalesce(t.revoked_at, livebox.clock()) WHERE t.id = p_token;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION livebox.revoke_token(uuid) IS
    'Ends a local token from the next request on; false when there is none of that id. Revoking again changes nothing. For the command line.';
