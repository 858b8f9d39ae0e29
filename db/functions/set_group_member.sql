CREATE OR REPLACE FUNCTION livebox.set_group_member(caller jsonb, args jsonb, p_in boolean) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me        uuid := livebox.caller_id(caller);
    v_group     uuid := (args->>'group_id')::uuid;
    v_principal uuid := (args->>'principal_id')::uuid;
    v_effects   jsonb;
BEGIN
    IF livebox.authorize(v_me, 'structure.manage', '{}') IS NOT NULL THEN
        RETURN livebox.refused('forbidden');
    END IF;
    PERFORM FROM livebox.groups g WHERE g.id = v_group FOR NO KEY UPDATE;
    IF NOT FOUND OR NOT EXISTS (SELECT FROM livebox.principals p WHERE p.id = v_principal) THEN
        RETURN livebox.refused('not_found');
    END IF;
    IF p_in THEN
        INSERT INTO livebox.group_members (group_id, principal_id) VALUES (v_group, v_principal) ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM livebox.group_members m WHERE m.group_id = v_group AND m.principal_id = v_principal;
    END IF;
    IF FOUND THEN
        UPDATE livebox.groups g SET version = g.version + 1, updated_at = greatest(livebox.clock(), g.updated_at) WHERE g.id = v_group;
        PERFORM livebox.access_changed('membership', v_me, v_principal, v_group);
        IF NOT p_in THEN
            v_effects := livebox.note_consequence('access_revoked', v_me, jsonb_build_object('principal_id', v_principal));
        END IF;
    END IF;
    RETURN livebox.done('no_content', NULL, effects => v_effects);
END $$;
COMMENT ON FUNCTION livebox.set_group_member(jsonb, jsonb, boolean) IS
    'Puts a principal into a group or takes it out, which ends its runs where it may not read any more; owners only. What is so already changes nothing.';
