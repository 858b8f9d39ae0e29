CREATE OR REPLACE FUNCTION livebox.update_principal(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me      uuid := livebox.caller_id(caller);
    v_body    jsonb := args->'body';
    v_agent   jsonb := args->'body'->'agent';
    v_refusal livebox.answer;
    v_old     livebox.principals;
    v_new     livebox.principals;
    v_effects jsonb;
BEGIN
    IF livebox.authorize(v_me, 'structure.manage', '{}') IS NOT NULL THEN
        RETURN livebox.refused('forbidden');
    END IF;
    SELECT * INTO v_old FROM livebox.principals p WHERE p.id = (args->>'principal_id')::uuid FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN livebox.refused('not_found');
    END IF;
    v_refusal := livebox.agent_policy_error(v_old.kind, v_agent, false);
    IF v_refusal.code IS NOT NULL THEN
        RETURN v_refusal;
    ELSIF NOT livebox.version_matches(args, v_old.version) THEN
        RETURN livebox.refused('version_mismatch');
    ELSIF v_body->>'status' = 'disabled' AND v_old.role = 'owner' AND v_old.status = 'active'
          AND NOT EXISTS (SELECT FROM livebox.principals p WHERE p.role = 'owner' AND p.status = 'active' AND p.id <> v_old.id) THEN
        RETURN livebox.refused('last_owner');
    END IF;

    v_new := v_old;
    v_new.display_name := coalesce(v_body->>'display_name', v_old.display_name);
    v_new.status := coalesce(v_body->>'status', v_old.status);
    IF v_agent IS NOT NULL THEN
        v_new.billing_mode := v_agent->>'billing_mode';
        v_new.credential_holder_id := (v_agent->>'credential_holder_id')::uuid;
        v_new.tool_class := v_agent->>'tool_class';
    END IF;
    IF v_new IS DISTINCT FROM v_old THEN
        UPDATE livebox.principals p
           SET (display_name, status, billing_mode, credential_holder_id, tool_class, version, updated_at)
             = (v_new.display_name, v_new.status, v_new.billing_mode, v_new.credential_holder_id, v_new.tool_class,
                v_old.version + 1, greatest(livebox.clock(), v_old.updated_at))
         WHERE p.id = v_old.id
        RETURNING * INTO v_new;
        IF v_new.status <> v_old.status THEN
            PERFORM livebox.access_changed('status', v_me, v_new.id, NULL);
            IF v_new.status = 'disabled' AND v_new.kind IN ('person', 'agent') THEN
                v_effects := livebox.note_consequence(CASE v_new.kind WHEN 'person' THEN 'user_disabled' ELSE 'agent_disabled' END,
                                                      v_me, jsonb_build_object('principal_id', v_new.id));
            END IF;
        ELSIF (v_new.billing_mode, v_new.credential_holder_id, v_new.tool_class)
              IS DISTINCT FROM (v_old.billing_mode, v_old.credential_holder_id, v_old.tool_class) THEN
            PERFORM livebox.access_changed('policy', v_me, v_new.id, NULL);
        END IF;
    END IF;
    RETURN livebox.done('ok', livebox.principal_json(v_new), v_new.version, effects => v_effects);
END $$;
COMMENT ON FUNCTION livebox.update_principal(jsonb, jsonb) IS
    'updatePrincipal: owners only. Disabling ends tokens and rights at once, and runs after it; the last active owner stays.';
