-- STABLE: read in the snapshot of the one statement that calls it, so that the active runs are those at that seq.
CREATE OR REPLACE FUNCTION livebox.open_session(p_caller jsonb, p_args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_me        uuid := livebox.caller_id(p_caller);
    v_principal livebox.principals;
    v_page      record;
    v_items     jsonb := '[]';
BEGIN
    IF NOT livebox.caller_active(p_caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    SELECT * INTO STRICT v_principal FROM livebox.principals p WHERE p.id = v_me;
    IF livebox.authorize(v_me, 'sync.snapshot.read', '{}') IS NULL THEN
        SELECT * INTO v_page FROM livebox.active_run_page(
            v_me, (p_args->'limits'->>'snapshot.active_runs_max')::bigint, NULL, NULL, NULL);
        v_items := v_page.items;
        RETURN livebox.done('ok', jsonb_build_object('principal', livebox.principal_json(v_principal),
            'seq', livebox.last_seq(), 'active_runs', v_items), effects => v_page.effects);
    END IF;
    RETURN livebox.done('ok', jsonb_build_object('principal', livebox.principal_json(v_principal),
        'seq', livebox.last_seq(), 'active_runs', v_items));
END $$;
COMMENT ON FUNCTION livebox.open_session(jsonb, jsonb) IS
    'What a session of the gateway begins with: the principal, where the log is, and the active runs that the principal may see (as on the first page of getSnapshot). Needs the limit snapshot.active_runs_max.';
