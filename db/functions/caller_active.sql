CREATE OR REPLACE FUNCTION livebox.caller_active(p_caller jsonb) RETURNS boolean LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM livebox.principals p
                    WHERE p.id = (p_caller->>'principal')::uuid AND p.status = 'active') THEN
        RETURN false;
    END IF;
    RETURN NOT p_caller ? 'token'
        OR EXISTS (SELECT FROM livebox.access_tokens t
                    WHERE t.id = (p_caller->>'token')::uuid AND t.principal_id = (p_caller->>'principal')::uuid
                      AND t.revoked_at IS NULL AND t.expires_at > livebox.clock());
END $$;
COMMENT ON FUNCTION livebox.caller_active(jsonb) IS
    'Whether the caller is an active principal and the local token it came with still holds. Asked in the statement that does the work, so that disabling and revoking reach it at once.';
