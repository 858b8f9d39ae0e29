CREATE OR REPLACE FUNCTION livebox.authenticate_token(args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_token  livebox.access_tokens;
    v_active boolean;
BEGIN
    SELECT * INTO v_token FROM livebox.access_tokens t WHERE t.hash = decode(args->>'hash', 'hex');
    SELECT p.status = 'active' INTO v_active FROM livebox.principals p WHERE p.id = v_token.principal_id;
    IF v_active IS NOT TRUE OR v_token.revoked_at IS NOT NULL THEN
        RETURN livebox.refused('invalid_token');
    ELSIF v_token.expires_at <= livebox.clock() THEN
        RETURN livebox.refused('token_expired');
    END IF;
    RETURN livebox.done('ok', jsonb_build_object(
        'principal', v_token.principal_id, 'token', v_token.id, 'expires_at', livebox.utc(v_token.expires_at)));
END $$;
COMMENT ON FUNCTION livebox.authenticate_token(jsonb) IS
    'Whose local token has this SHA-256 (args.hash, hex): {principal, token, expires_at}; else invalid_token or token_expired.';
