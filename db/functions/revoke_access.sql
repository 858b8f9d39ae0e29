CREATE OR REPLACE FUNCTION livebox.revoke_access(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me     uuid := livebox.caller_id(caller);
    v_grant  livebox.grants;
    v_denial text;
BEGIN
    SELECT * INTO v_grant FROM livebox.grants g WHERE g.id = (args->>'grant_id')::uuid FOR UPDATE;
    v_denial := livebox.authorize(v_me, 'structure.manage', livebox.grant_place(v_grant));
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    DELETE FROM livebox.grants g WHERE g.id = v_grant.id;
    PERFORM livebox.access_changed('grant', v_me, v_grant.principal_id, v_grant.group_id, jsonb_build_object(
        'space_id', v_grant.space_id, 'channel_id', v_grant.channel_id));
    RETURN livebox.done('no_content', NULL, effects => livebox.note_consequence('access_revoked', v_me, jsonb_build_object(
        'principal_id', v_grant.principal_id, 'space_id', v_grant.space_id, 'channel_id', v_grant.channel_id)));
END $$;
COMMENT ON FUNCTION livebox.revoke_access(jsonb, jsonb) IS 'revokeAccess: for who manages the place of the grant. The next read obeys; runs of those who may not read there any more end.';
