CREATE OR REPLACE FUNCTION livebox.get_grant(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_grant  livebox.grants;
    v_denial text;
BEGIN
    SELECT * INTO v_grant FROM livebox.grants g WHERE g.id = (args->>'grant_id')::uuid;
    v_denial := livebox.authorize(livebox.caller_id(caller), 'structure.manage', livebox.grant_place(v_grant));
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused('not_found');
    END IF;
    RETURN livebox.done('ok', livebox.grant_json(v_grant), v_grant.version, 'grant', v_grant.id::text);
END $$;
COMMENT ON FUNCTION livebox.get_grant(jsonb, jsonb) IS 'A grant for who manages its place; what a repeated grantAccess answers with. No route leads to it.';
