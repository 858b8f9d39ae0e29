CREATE OR REPLACE FUNCTION livebox.grant_access(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me        uuid := livebox.caller_id(caller);
    v_body      jsonb := args->'body';
    v_principal uuid := (v_body->>'principal_id')::uuid;
    v_group     uuid := (v_body->>'group_id')::uuid;
    v_space     uuid := (v_body->>'space_id')::uuid;
    v_channel   uuid := (v_body->>'channel_id')::uuid;
    v_denial    text;
    v_old       livebox.grants;
    v_grant     livebox.grants;
BEGIN
    IF num_nonnulls(v_principal, v_group) <> 1 THEN
        RETURN livebox.invalid_member(CASE WHEN v_group IS NULL THEN 'required' ELSE 'not_allowed_value' END, '/principal_id',
                                      'Exactly one of principal_id and group_id is needed.');
    ELSIF num_nonnulls(v_space, v_channel) <> 1 THEN
        RETURN livebox.invalid_member(CASE WHEN v_space IS NULL THEN 'required' ELSE 'not_allowed_value' END, '/space_id',
                                      'Exactly one of space_id and channel_id is needed.');
    END IF;
    v_denial := livebox.authorize(v_me, 'structure.manage', jsonb_strip_nulls(jsonb_build_object('space_id', v_space, 'channel_id', v_channel)));
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    ELSIF v_principal IS NOT NULL AND NOT EXISTS (SELECT FROM livebox.principals p WHERE p.id = v_principal) THEN
        RETURN livebox.invalid_member('unknown_reference', '/principal_id', 'There is no such principal.');
    ELSIF v_group IS NOT NULL AND NOT EXISTS (SELECT FROM livebox.groups g WHERE g.id = v_group) THEN
        RETURN livebox.invalid_member('unknown_reference', '/group_id', 'There is no such group.');
    END IF;

    SELECT * INTO v_old FROM livebox.grants g
     WHERE (g.principal_id = v_principal OR g.group_id = v_group) AND (g.space_id = v_space OR g.channel_id = v_channel)
       FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO livebox.grants (principal_id, group_id, space_id, channel_id, level, created_by)
        VALUES (v_principal, v_group, v_space, v_channel, v_body->>'level', v_me)
        RETURNING * INTO v_grant;
    ELSIF v_old.level <> v_body->>'level' THEN
        UPDATE livebox.grants g
           SET level = v_body->>'level', version = g.version + 1, updated_at = greatest(livebox.clock(), g.updated_at)
         WHERE g.id = v_old.id
        RETURNING * INTO v_grant;
    ELSE
        RETURN livebox.done('created', livebox.grant_json(v_old), v_old.version, 'grant', v_old.id::text);
    END IF;
    PERFORM livebox.access_changed('grant', v_me, v_principal, v_group, jsonb_build_object(
        'space_id', v_space, 'channel_id', v_channel, 'level', v_grant.level));
    RETURN livebox.done('created', livebox.grant_json(v_grant), v_grant.version, 'grant', v_grant.id::text);
END $$;
COMMENT ON FUNCTION livebox.grant_access(jsonb, jsonb) IS
    'grantAccess: for who manages the space or channel. Granting again to the same holder in the same place replaces the level. The lowest level still reads, so lowering ends no run: who may not trigger any more is told so when work is handed over.';
