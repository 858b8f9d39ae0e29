CREATE OR REPLACE FUNCTION livebox.get_principal(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_principal livebox.principals;
BEGIN
    IF NOT livebox.caller_active(caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    SELECT * INTO v_principal FROM livebox.principals p WHERE p.id = (args->>'principal_id')::uuid;
    IF livebox.authorize(livebox.caller_id(caller), 'principal.read', '{}') IS NOT NULL OR v_principal.id IS NULL THEN
        RETURN livebox.refused('not_found');
    END IF;
    RETURN livebox.done('ok', livebox.principal_json(v_principal), v_principal.version, 'principal', v_principal.id::text);
END $$;
COMMENT ON FUNCTION livebox.get_principal(jsonb, jsonb) IS 'getPrincipal: the directory is open to every active principal.';
